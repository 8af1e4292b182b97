// Follows torch/_tensor_str.py, so that both print the same text.
#include "core/tensor/print.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/mutex.h"

namespace dl {
namespace {

constexpr std::string_view kPrefix = "tensor(";

// The values that set_printoptions() sets.
struct Look {
  int precision = 4;
  std::int64_t threshold = 1000;
  std::int64_t edge = 3;
  std::int64_t line_width = 80;
  std::optional<bool> scientific{};
};
constinit Mutex look_mutex;
constinit Look current_look DL_GUARDED_BY(look_mutex);

Look look() {
  const Lock lock(look_mutex);
  return current_look;
}

// An element: a number or, for integers and bool, its text.
struct Element {
  double real = 0;
  std::string text;
};

Element element_at(const Tensor& tensor, std::int64_t offset) {
  return visit_all(tensor.dtype(), [&]<typename T>() -> Element {
    const T value = static_cast<const T*>(tensor.data_ptr())[offset];
    if constexpr (std::is_same_v<T, bool>) {
      return {0, value ? "True" : "False"};
    } else if constexpr (std::is_integral_v<T>) {
      return {0, std::to_string(value)};
    } else {
      return {static_cast<double>(static_cast<OpMath<T>>(value)), {}};
    }
  });
}

// Python writes nan without its sign.
std::string fixed(double value, int digits) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}f}", value, digits);
}
std::string scientific(double value, int digits) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}e}", value, digits);
}

// The common format and width of one tensor's elements.
class Formatter {
 public:
  Formatter(bool floating, const std::vector<Element>& elements, const Look& look)
      : floating_(floating), digits_(look.precision) {
    if (!floating) {
      for (const Element& element : elements) widen(element.text.size());
      return;
    }
    double least = std::numeric_limits<double>::infinity();
    double largest = 0;
    for (const Element& element : elements) {
      if (!counts(element)) continue;
      least = std::min(least, std::abs(element.real));
      largest = std::max(largest, std::abs(element.real));
      whole_ = whole_ && element.real == std::ceil(element.real);
    }
    if (largest == 0) return;
    scientific_ =
        look.scientific.value_or(largest / least > 1000.0 || largest > 1.0e8 || least < 1.0e-4);
    for (const Element& element : elements) {
      if (counts(element)) widen(number(element.real).size());
    }
  }

  std::size_t width() const noexcept { return width_; }

  std::string format(const Element& element) const {
    const std::string text = floating_ ? number(element.real) : element.text;
    return fmt::format("{:>{}}", text, width_);
  }

 private:
  static bool counts(const Element& element) noexcept {
    return std::isfinite(element.real) && element.real != 0;
  }
  void widen(std::size_t width) noexcept { width_ = std::max(width_, width); }
  std::string number(double value) const {
    if (scientific_) return scientific(value, digits_);
    if (!whole_) return fixed(value, digits_);
    return std::isfinite(value) ? fixed(value, 0) + "." : fixed(value, 0);
  }

  bool floating_;
  int digits_;
  bool whole_ = true;
  bool scientific_ = false;
  std::size_t width_ = 1;
};

class Printer {
 public:
  Printer(const Tensor& tensor, const Look& look)
      : tensor_(tensor),
        look_(look),
        summarize_(tensor.numel() > look.threshold),
        formatter_(is_floating(tensor.dtype()), shown(), look) {}

  std::string body() const {
    if (tensor_.numel() == 0) return "[]";
    if (tensor_.dim() == 0) return formatter_.format(element_at(tensor_, 0));
    return nested(0, 0, kPrefix.size());
  }

 private:
  // The indices along a dimension that are shown.
  std::vector<std::int64_t> indices(std::size_t dim) const {
    const std::int64_t size = tensor_.sizes()[dim];
    std::vector<std::int64_t> result;
    for (std::int64_t i = 0; i < size; ++i) {
      if (is_cut(dim) && i >= look_.edge && i < size - look_.edge) continue;
      result.push_back(i);
    }
    return result;
  }
  bool is_cut(std::size_t dim) const { return summarize_ && tensor_.sizes()[dim] > 2 * look_.edge; }

  std::vector<Element> shown() const {
    if (tensor_.numel() == 0) return {};
    std::vector<std::int64_t> offsets{0};
    for (std::size_t d = 0; d < tensor_.sizes().size(); ++d) {
      std::vector<std::int64_t> next;
      for (const std::int64_t offset : offsets) {
        for (const std::int64_t i : indices(d)) next.push_back(offset + i * tensor_.strides()[d]);
      }
      offsets = std::move(next);
    }
    std::vector<Element> elements;
    elements.reserve(offsets.size());
    for (const std::int64_t offset : offsets) elements.push_back(element_at(tensor_, offset));
    return elements;
  }

  std::string vector(std::int64_t offset, std::size_t dim, std::size_t indent) const {
    const auto room = look_.line_width - static_cast<std::int64_t>(indent);
    const auto each = static_cast<std::int64_t>(formatter_.width()) + 2;
    const auto per_line = static_cast<std::size_t>(std::max<std::int64_t>(1, room / each));
    std::vector<std::string> parts;
    for (const std::int64_t i : indices(dim)) {
      if (is_cut(dim) && i == tensor_.sizes()[dim] - look_.edge) parts.emplace_back(" ...");
      parts.push_back(formatter_.format(element_at(tensor_, offset + i * tensor_.strides()[dim])));
    }
    const std::string new_line = fmt::format(",\n{:{}}", "", indent + 1);
    std::string text = "[";
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i != 0) text += i % per_line == 0 ? new_line : ", ";
      text += parts[i];
    }
    return text + "]";
  }

  // Recursion over dimensions.
  std::string nested(std::int64_t offset, std::size_t dim, std::size_t indent) const {
    const std::size_t left = tensor_.sizes().size() - dim;
    if (left == 1) return vector(offset, dim, indent);
    const std::string separator = fmt::format(",{:\n<{}}{:{}}", "", left - 1, "", indent + 1);
    std::string text = "[";
    bool first = true;
    for (const std::int64_t i : indices(dim)) {
      if (!first) text += separator;
      first = false;
      if (is_cut(dim) && i == tensor_.sizes()[dim] - look_.edge) text += "..." + separator;
      text += nested(offset + i * tensor_.strides()[dim], dim + 1, indent + 1);
    }
    return text + "]";
  }

  const Tensor& tensor_;
  Look look_;
  bool summarize_;
  Formatter formatter_;
};

// "(2, 0)", as Python writes tuples.
std::string tuple(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::vector<std::string> suffixes(const Tensor& tensor) {
  std::vector<std::string> result;
  const DType dtype = tensor.dtype();
  const std::string dtype_text = fmt::format("dtype=torch.{}", name_of(dtype));
  if (tensor.device().type != DeviceType::kCPU) {
    result.push_back(fmt::format("device='{}'", tensor.device().str()));
  }
  if (tensor.numel() == 0) {
    if (tensor.dim() != 1) result.push_back("size=" + tuple(tensor.sizes()));
    if (dtype != DType::kF32) result.push_back(dtype_text);
  } else if (dtype != DType::kF32 && dtype != DType::kI64 && dtype != DType::kBool) {
    result.push_back(dtype_text);
  }
  return result;
}

}  // namespace

std::string to_text(const Tensor& tensor, std::span<const std::string> more) {
  if (!tensor.defined()) return "tensor(undefined)";
  const Look now = look();
  std::string text = std::string(kPrefix) + Printer(tensor.detach().cpu(), now).body();
  std::vector<std::string> all = suffixes(tensor);
  all.insert(all.end(), more.begin(), more.end());
  const std::size_t newline = text.rfind('\n');
  std::size_t line = newline == std::string::npos ? text.size() + 2 : text.size() - newline + 1;
  for (const std::string& suffix : all) {
    if (line + suffix.size() + 2 > static_cast<std::size_t>(now.line_width)) {
      text += fmt::format(",\n{:{}}{}", "", kPrefix.size(), suffix);
      line = kPrefix.size() + suffix.size();
    } else {
      text += ", " + suffix;
      line += suffix.size() + 2;
    }
  }
  return text + ")";
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.str();
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) {
  return out << dims.str();
}

std::ostream& operator<<(std::ostream& out, Device device) {
  return out << device.str();
}

std::ostream& operator<<(std::ostream& out, DType dtype) {
  return out << name_of(dtype);
}

void set_printoptions(const PrintOptions& options) {
  DL_CHECK(options.precision.value_or(0) >= 0 && options.precision.value_or(0) <= 100,
           kInvalidArgument, "set_printoptions: precision is {}, wanted 0 to 100",
           *options.precision);
  DL_CHECK(options.threshold.value_or(0) >= 0, kInvalidArgument,
           "set_printoptions: threshold is {}, wanted at least 0", *options.threshold);
  DL_CHECK(options.edgeitems.value_or(1) >= 1, kInvalidArgument,
           "set_printoptions: edgeitems is {}, wanted at least 1", *options.edgeitems);
  DL_CHECK(options.linewidth.value_or(1) >= 1, kInvalidArgument,
           "set_printoptions: linewidth is {}, wanted at least 1", *options.linewidth);
  const Lock lock(look_mutex);
  current_look = {.precision = options.precision.value_or(current_look.precision),
                  .threshold = options.threshold.value_or(current_look.threshold),
                  .edge = options.edgeitems.value_or(current_look.edge),
                  .line_width = options.linewidth.value_or(current_look.line_width),
                  .scientific = options.sci_mode};
}

PrintOptions get_printoptions() {
  const Look now = look();
  return {.precision = now.precision,
          .threshold = now.threshold,
          .edgeitems = now.edge,
          .linewidth = now.line_width,
          .sci_mode = now.scientific};
}

}  // namespace dl
