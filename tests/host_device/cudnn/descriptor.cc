#include "tests/host_device/cudnn/descriptor.h"

namespace dl::host_device::dnn {
namespace {

Shared read(std::istream& text, int depth) {
  const auto next = [&text] {
    std::int64_t number = 0;
    text >> number;
    return number;
  };
  constexpr int kDeepest = 16;
  if (depth == kDeepest) return nullptr;
  auto made = std::make_shared<Descriptor>();
  made->type = static_cast<cudnnBackendDescriptorType_t>(next());
  made->finalized = true;
  for (std::int64_t left = next(); left > 0; --left) {
    Descriptor::Attribute& attribute =
        made->attributes[static_cast<cudnnBackendAttributeName_t>(next())];
    attribute.type = static_cast<cudnnBackendAttributeType_t>(next());
    attribute.count = next();
    for (std::int64_t bytes = next(); bytes > 0 && text; --bytes) {
      attribute.bytes.push_back(static_cast<char>(next()));
    }
    for (std::int64_t children = next(); children > 0 && text; --children) {
      attribute.descriptors.push_back(read(text, depth + 1));
      if (attribute.descriptors.back() == nullptr) return nullptr;
    }
    if (!text) return nullptr;
  }
  return text ? made : nullptr;
}

}  // namespace

void write_text(const Descriptor& d, std::string& text) {
  const auto add = [&text](std::int64_t number) { text += std::to_string(number) + ' '; };
  add(d.type);
  add(static_cast<std::int64_t>(d.attributes.size()));
  for (const auto& [name, attribute] : d.attributes) {
    add(name);
    add(attribute.type);
    add(attribute.count);
    add(static_cast<std::int64_t>(attribute.bytes.size()));
    for (const char byte : attribute.bytes) add(byte);
    add(static_cast<std::int64_t>(attribute.descriptors.size()));
    for (const Shared& child : attribute.descriptors) write_text(*child, text);
  }
}

Shared read_text(std::istream& text) {
  return read(text, 0);
}

}  // namespace dl::host_device::dnn
