#include "nn/data/sample_error.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "core/base/error.h"
#include "core/base/log.h"

namespace dl::data {
namespace {

std::string prefix_of(const SamplePlace& place) {
  return place.sample ? fmt::format("sample {} (batch {})", *place.sample, place.batch)
                      : fmt::format("batch {}", place.batch);
}

// The type of the exception that is being handled.
std::string current_type() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an exception of another language";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : type->name();
}

// Throws a Known with this text where `error` is one. A derived class holds more than a text.
template <typename... Known>
void throw_if_exactly(const std::exception& error, const std::string& text) {
  ((typeid(error) == typeid(Known) ? throw Known(text) : void()), ...);
}

}  // namespace

void rethrow_for_sample(const std::exception_ptr& error, const SamplePlace& place) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    const std::string text = fmt::format("{}: {}", prefix_of(place), thrown.what());
    if (typeid(thrown) == typeid(Error))
      throw Error(static_cast<const Error&>(thrown).kind(), text);
    throw_if_exactly<std::runtime_error, std::range_error, std::overflow_error,
                     std::underflow_error, std::logic_error, std::domain_error,
                     std::invalid_argument, std::length_error, std::out_of_range>(thrown, text);
    log::error("data loader: {}: the dataset threw {}: {}", prefix_of(place), current_type(),
               thrown.what());
    throw;
  } catch (...) {
    log::error("data loader: {}: the dataset threw {}, which is no std::exception",
               prefix_of(place), current_type());
    throw;
  }
}

}  // namespace dl::data
