#include "launcher/remote/ssh/remote_host.h"

#include <fmt/core.h>

#include <utility>

#include "core/base/version.h"

namespace dl::launcher::remote {
namespace {

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

RemoteHost::RemoteHost(boost::asio::io_context& io, int node, std::unique_ptr<AgentLine> line,
                       std::string dlrun, Start start, RemoteHostEvents& events)
    : io_(io),
      node_(node),
      dlrun_(std::move(dlrun)),
      start_(std::move(start)),
      events_(events),
      line_(std::move(line)) {}

void RemoteHost::connect() {
  connecting_ = true;
  line_->connect(
      {.on_open = [this](UniqueFd in, UniqueFd out) { open(std::move(in), std::move(out)); },
       .on_said = [this](const std::string& line) { events_.on_line_said(line); },
       .on_ended = [this] { check_gone(); }});
}

void RemoteHost::open(UniqueFd in, UniqueFd out) {
  channel_ = std::make_unique<Channel>(
      io_, std::move(in), std::move(out), Decoder(/*after_magic=*/true),
      Channel::Events{.on_value = [this](Value value) { on_value(std::move(value)); },
                      .on_closed =
                          [this](const std::string& wrong) {
                            in_ended_ = true;
                            wrong_ = wrong;
                            if (!wrong.empty()) kill();
                            if (!over_) line_->on_closed();
                            check_gone();
                          }});
}

void RemoteHost::on_value(Value value) {
  heard_ = std::chrono::steady_clock::now();
  if (!answered_) {
    if (const auto* hello = std::get_if<Hello>(&value)) greet(*hello);
    return;
  }
  std::visit(
      Overloaded{
          [&](const Refused& v) { fail(v.exit_code, fmt::format("host {}: {}", name(), v.text)); },
          [&](const Listening& v) { events_.on_listening(*this, v.endpoints); },
          [&](const Sentence& v) { events_.on_sentence(*this, v.text); },
          [&](const Attempt& v) { events_.on_attempt(*this, v); },
          [&](const RankNews& v) { events_.on_rank(v); },
          [&](const Output& v) { events_.on_output(*this, v); },
          [&](Decided& v) { events_.on_decided(*this, std::move(v.verdict)); },
          [&](BeginsAgain& v) { events_.on_begins_again(*this, std::move(v)); },
          [&](const RankFile& v) { events_.on_file(v); },
          [&](const InputRoom& v) {
            if (node_ == 0) events_.on_input_room(v.bytes);
          },
          [&](const Over& v) {
            over_ = true;
            events_.on_over(*this, v);
          },
          [](const auto&) {},  // what only a frontend sends
      },
      value);
}

void RemoteHost::greet(const Hello& hello) {
  if (hello.protocol != kProtocolVersion || hello.version != kVersion) {
    fail(1, fmt::format("host {} has dlrun {} (protocol {}) at {}, this one is {} (protocol {}); "
                        "install one version on all hosts",
                        name(), hello.version, hello.protocol, dlrun_, kVersion, kProtocolVersion));
    return;
  }
  answered_ = true;
  line_->on_answered();
  send(start_);
  start_.key.clear();
  events_.on_answered(*this);
}

void RemoteHost::fail(int exit_code, const std::string& text) {
  if (std::exchange(failed_, true)) return;
  close();
  events_.on_failed(*this, exit_code, text);
}

void RemoteHost::lose(const std::string& how) {
  fail(1, fmt::format("host {} was lost: {}", name(), how));
}

void RemoteHost::check_gone() {
  if (gone_ || !line_->has_ended()) return;
  if (channel_ && !in_ended_) {
    if (over_ || line_->ends_stream()) channel_->end_reading();  // on_closed() calls this again
    return;
  }
  gone_ = true;
  if (!over_ && !failed_) {
    const std::string noise(channel_ ? channel_->noise() : "");
    fail(1, !wrong_.empty() && !noise.empty()
                ? fmt::format("host {}: {}; does its login start another program?", name(), wrong_)
            : !wrong_.empty()
                ? fmt::format("host {}: what its dlrun says is not understood: {}", name(), wrong_)
            : answered_ ? line_->how_it_was_lost()
                        : line_->why_not_started(noise));
  }
  events_.on_gone(*this);
}

}  // namespace dl::launcher::remote
