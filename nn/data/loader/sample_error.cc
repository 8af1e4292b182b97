#include "nn/data/loader/sample_error.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <typeinfo>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/text/printable.h"

namespace dl::data {
namespace {

// The type of the exception that is being handled.
std::string current_type() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an exception of another language";
  return demangled(type->name());
}

// Whose exception it is. A sample's number is known while the dataset reads that sample.
std::string_view thrower(const SamplePlace& place) noexcept {
  return place.sample ? "the dataset" : "the dataset or the collate function";
}

// Throws a Known with this text if `error` is exactly of this type: a derived class may hold more
// than a text.
template <typename... Known>
void throw_if_exactly(const std::exception& error, const std::string& text) {
  ((typeid(error) == typeid(Known) ? throw Known(text) : void()), ...);
}

}  // namespace

std::string text_of(const SamplePlace& place) {
  return place.sample ? fmt::format("sample {} (batch {})", *place.sample, place.batch)
                      : fmt::format("batch {}", place.batch);
}

void rethrow_for_sample(const std::exception_ptr& error, const SamplePlace& place) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    const std::string text = fmt::format("{}: {}", text_of(place), thrown.what());
    if (typeid(thrown) == typeid(Error))
      throw Error(static_cast<const Error&>(thrown).kind(), text);
    throw_if_exactly<std::runtime_error, std::range_error, std::overflow_error,
                     std::underflow_error, std::logic_error, std::domain_error,
                     std::invalid_argument, std::length_error, std::out_of_range>(thrown, text);
    log::error("data loader: {}: {} threw {}: {}", text_of(place), thrower(place), current_type(),
               thrown.what());
    throw;
  } catch (...) {
    log::error("data loader: {}: {} threw {}, which is no std::exception", text_of(place),
               thrower(place), current_type());
    throw;
  }
}

}  // namespace dl::data
