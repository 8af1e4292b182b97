// PickleMachine: a stack machine for the opcodes that Python's pickletools describes. For one use.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "nn/serialize/pickle/pickle_names.h"
#include "nn/serialize/pickle/pickle_reader.h"

namespace dl::nn {

class PickleMachine {
 public:
  // The pickle continues after `bytes`.
  struct Truncated {};

  // `what`: the pickle's name in errors.
  PickleMachine(std::string_view bytes, std::string_view file, std::string_view what)
      : bytes_(bytes), file_(file), what_(what) {}

  // Throws Truncated, besides what read_pickle() throws.
  Pickle run();
  // The pickle's length, after run().
  std::size_t length() const noexcept { return next_; }

  [[noreturn]] void refuse(std::string_view what) const {
    throw_error(ErrorKind::kParse, "{}: {} {} (at byte {})", file_, what_, what, at_);
  }

 private:
  using Kind = PickleKind;

  // The bytes of a storage: all of it, except for views in files before PyTorch 1.6.
  struct Part {
    std::size_t storage;
    std::uint64_t begin;
    std::uint64_t bytes;
  };
  // The size of a container's value if each reference is copied.
  struct Weight {
    std::uint64_t values = 0;  // 0: not known yet
    int height = 0;
    bool open = false;  // an ancestor of the container that is being visited
  };

  void require(bool holds, std::string_view what) const {
    if (!holds) refuse(what);
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - next_) throw Truncated();
    const std::string_view taken = bytes_.substr(next_, count);
    next_ += count;
    return taken;
  }
  // Little-endian.
  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    const std::string_view taken = take(width);
    for (std::size_t i = width; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(taken[i]);
    return value;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', next_);
    if (end == std::string_view::npos) throw Truncated();
    const std::string_view taken = bytes_.substr(next_, end - next_);
    next_ = end + 1;
    return taken;
  }

  void push(Kind kind, std::int64_t value = 0) { stack_.push_back({kind, value}); }
  template <typename T>
  void push_new(Kind kind, std::vector<T>& table, T value) {
    push(kind, static_cast<std::int64_t>(table.size()));
    table.push_back(std::move(value));
  }
  PickleItem pop() {
    require(stack_.size() > (marks_.empty() ? 0 : marks_.back()),
            "takes a value that is not there");
    const PickleItem item = stack_.back();
    stack_.pop_back();
    return item;
  }
  PickleItem& top() {
    require(stack_.size() > (marks_.empty() ? 0 : marks_.back()),
            "takes a value that is not there");
    return stack_.back();
  }
  std::vector<PickleItem> pop_to_mark() {
    require(!marks_.empty(), "takes values to a mark that is not there");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleItem> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<PickleItem>& list_of(const PickleItem& item) { return pickle_.lists[item.index()]; }
  std::string_view text_of(const PickleItem& item) const { return pickle_.texts[item.index()]; }
  bool is_role(const PickleItem& item, PickleRole role) const {
    return item.kind == Kind::kGlobal && kPickleNames[item.index()].role == role;
  }

  bool step();  // true at the end
  void push_tuple(std::size_t count);
  void push_long(std::uint64_t width);
  void push_text(std::uint64_t bytes) { push_new(Kind::kText, pickle_.texts, take(bytes)); }
  void push_bytes(std::uint64_t bytes) { push_new(Kind::kBytes, pickle_.texts, take(bytes)); }
  void push_made(Kind kind, std::string text);
  void push_global(std::string_view module, std::string_view name);
  void remember(std::uint64_t place) { memo_[place] = top(); }
  void recall(std::uint64_t place) {
    const auto found = memo_.find(place);
    require(found != memo_.end(), "refers to a value that it has not made");
    stack_.push_back(found->second);
  }
  void extend(Kind kind, std::span<const PickleItem> items);
  void build();
  Weight weigh(const PickleItem& item, int depth);

  // pickle_calls.cc: calls of functions and classes.
  void reduce();
  void make_object();
  void call(const PickleName& function, std::span<const PickleItem> given);
  void push_dict(std::span<const PickleItem> given, std::string_view name);
  void push_set(std::span<const PickleItem> given);
  void push_encoded(const PickleItem& text);
  void push_byte_array(std::span<const PickleItem> given);
  void push_device(std::span<const PickleItem> given);
  void push_complex(std::span<const PickleItem> given);
  void push_parameter(std::span<const PickleItem> given, std::size_t count);
  void push_rebuilt(std::span<const PickleItem> given);
  void push_storage();
  Part part_of(std::size_t storage, const PickleItem& view) const;
  void push_tensor(std::span<const PickleItem> args, PickleRole role);
  void check_metadata(const PickleItem& metadata);
  std::vector<std::int64_t> sizes_of(const PickleItem& item, std::string_view what);
  void check_reach(const PickleTensor& tensor, std::int64_t held) const;

  std::string_view bytes_;
  std::string_view file_;
  std::string_view what_;
  std::size_t at_ = 0;    // offset of the current operation
  std::size_t next_ = 0;  // offset of the next byte
  std::uint64_t steps_ = 0;
  Pickle pickle_{};
  std::vector<PickleItem> stack_{};
  std::vector<std::size_t> marks_{};
  std::unordered_map<std::uint64_t, PickleItem> memo_{};
  std::unordered_map<std::string_view, std::size_t> storages_{};  // by key
  std::vector<Part> parts_{};
  std::vector<Weight> weights_{};  // of each list
};

}  // namespace dl::nn
