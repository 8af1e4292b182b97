#include "rendezvous/program/bridge/service_silence.h"

#include <fmt/format.h>

namespace dl::rendezvous {

void ServiceSilence::begin() {
  const Lock lock(mutex_);
  heard_ = Deadline::Clock::now();
  standstill_.look(heard_, time_suspended());
}

void ServiceSilence::on_message() {
  look();
  const Lock lock(mutex_);
  heard_ = Deadline::Clock::now();
}

void ServiceSilence::look() {
  const Lock lock(mutex_);
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  const Standstill::Span missed = standstill_.look(now, time_suspended());
  heard_ = std::min(now, heard_ + missed);
  missed_ += missed;
}

bool ServiceSilence::is_too_long() const {
  const Lock lock(mutex_);
  return Deadline::Clock::now() - heard_ >= silence_.dead_after;
}

Standstill::Span ServiceSilence::take_missed() {
  const Lock lock(mutex_);
  return std::exchange(missed_, {});
}

std::string ServiceSilence::with_standstill(std::string text) const {
  const Lock lock(mutex_);
  const auto stood =
      standstill_.recent(Deadline::Clock::now(), silence_.standstill(), silence_.dead_after);
  if (!stood) return text;
  return fmt::format("this node stood still for {} s (stopped, or its machine was paused): {}",
                     stood->count(), text);
}

}  // namespace dl::rendezvous
