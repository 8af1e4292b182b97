// cuDNN's graph API on the host device: descriptors, and graphs of products, reductions along the
// last dimension, pointwise operations, reshapes and batch normalisation in training, of which each
// value is computed in f32 and rounded to its type.
//
// As the real one, it gives no plan for what its fused kernels do not take: products of other types
// than f16 and bf16, batches of which the channels of a position are no multiple of 16 bytes, and
// most pointwise operations behind or before the normalisation of a batch. A
// product that is written in f32 and read again adds to what is in memory, in another order in each
// run; the workspace is overwritten.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/host_device/cudnn/cudnn.h"
#include "tests/host_device/cudnn/descriptor.h"
#include "tests/host_device/cudnn/values.h"
#include "tests/host_device/runtime.h"
#include "tests/host_device/stream.h"

using namespace dl::host_device;
using namespace dl::host_device::dnn;

namespace {

std::atomic<bool> refuses_graphs{false};

// A handle of the caller's is a pointer to a shared one.
Shared* handle_of(cudnnBackendDescriptor_t descriptor) {
  return static_cast<Shared*>(descriptor);
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    default:
      return 4;  // enumerations
  }
}

// Of engines' proposals.
constexpr std::int64_t kWorkspace = 256;

bool is_half_width(const Descriptor& tensor) {
  const auto type = tensor.get(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

// The channels of a position are neighbours, and whole packs of 16 bytes.
bool is_supported_batch(const Tensor& batch) {
  const std::int64_t size = batch.type == CUDNN_DATA_FLOAT ? 4 : 2;
  return batch.steps[1] == 1 && batch.steps[3] == batch.sizes[1] && batch.sizes[1] * size % 16 == 0;
}

// Behind a normalisation, or before its gradient.
bool is_supported_beside(cudnnBackendDescriptorType_t norm, const Descriptor& op) {
  if (op.type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) return true;
  const auto mode = op.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                        ->get(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_IDENTITY);
  return norm == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR
             ? mode == CUDNN_POINTWISE_ADD || mode == CUDNN_POINTWISE_RELU_FWD
             : mode == CUDNN_POINTWISE_CMP_GT || mode == CUDNN_POINTWISE_MUL;
}

bool is_supported(const Descriptor& operations) {
  const std::vector<Shared> all = operations.children(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  for (const Shared& norm : all) {
    if (norm->type != CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR &&
        norm->type != CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR) {
      continue;
    }
    for (const Shared& op : all) {
      if (!is_supported_beside(norm->type, *op)) return false;
    }
  }
  for (const Shared& op : all) {
    for (const auto name :
         {CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC}) {
      const Shared batch = op->child(name);
      if (batch != nullptr && !is_supported_batch(Tensor(*batch))) return false;
    }
    if (op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR &&
        !is_half_width(*op->child(CUDNN_ATTR_OPERATION_MATMUL_BDESC))) {
      return false;
    }
  }
  return true;
}

cudnnStatus_t check_tensor(const Descriptor& d) {
  const Tensor tensor(d);
  if (tensor.number == 0 || tensor.count() <= 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor has no number or no sizes");
  }
  if (tensor.by_value && tensor.count() != 1) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor by value has more than one element");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_operation(const Descriptor& d) {
  if (d.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    const Tensor a(*d.child(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
    const Tensor b(*d.child(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    const Tensor c(*d.child(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    if (a.sizes[3] != b.sizes[2] || a.sizes[2] != c.sizes[2] || b.sizes[3] != c.sizes[3]) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "the sizes of a product do not fit");
    }
  } else if (d.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
    if (Tensor(*d.child(CUDNN_ATTR_OPERATION_RESHAPE_XDESC)).count() !=
        Tensor(*d.child(CUDNN_ATTR_OPERATION_RESHAPE_YDESC)).count()) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "a reshape changes the number of elements");
    }
  } else if (d.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR) {
    if (d.get(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_LAYER_NORM) != CUDNN_BATCH_NORM ||
        d.get(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_INFERENCE) !=
            CUDNN_NORM_FWD_TRAINING) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the host device has no such normalisation");
    }
  } else if (d.type == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR) {
    if (d.get(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_LAYER_NORM) != CUDNN_BATCH_NORM) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the host device has no such normalisation");
    }
  } else if (d.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
    const Shared what = d.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    if (!is_known(what->get(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_IDENTITY))) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the host device has no such pointwise mode");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}
}  // namespace

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Shared(std::make_shared<Descriptor>());
  (*handle_of(*descriptor))->type = type;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete handle_of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* elements) {
  Descriptor& d = **handle_of(descriptor);
  if (d.finalized) return refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized");
  Descriptor::Attribute attribute{type, count, {}, {}};
  const auto* const bytes = static_cast<const char*>(elements);
  attribute.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::int64_t i = 0; i < count; ++i) {
      const Shared& child = *handle_of(static_cast<const cudnnBackendDescriptor_t*>(elements)[i]);
      if (!child->finalized) {
        return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor is not finalized");
      }
      attribute.descriptors.push_back(child);
    }
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
    std::istringstream text(std::string(attribute.bytes.data(), attribute.bytes.size()));
    Shared config = read_text(text);
    if (config == nullptr) return refuse(CUDNN_STATUS_BAD_PARAM, "that is no plan");
    d.attributes[CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG] = {
        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {std::move(config)}};
  }
  d.attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor& d = **handle_of(descriptor);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      status = check_tensor(d);
      break;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      status = check_operation(d);
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      if (is_forbidden()) {
        return refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART,
                      "a plan is made while the thread captures");
      }
      if (d.attributes.contains(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)) break;
      count_search();
      const Shared engine =
          d.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->child(CUDNN_ATTR_ENGINECFG_ENGINE);
      if (!is_supported(*engine->child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH))) {
        return refuse(CUDNN_STATUS_NOT_SUPPORTED, "no engine takes the graph");
      }
      break;
    }
    default:
      break;
  }
  d.finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t requested,
                                       std::int64_t* count, void* elements) {
  Descriptor& d = **handle_of(descriptor);
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count = 1;
    if (requested < 1) return CUDNN_STATUS_SUCCESS;
    Descriptor& config = **handle_of(*static_cast<cudnnBackendDescriptor_t*>(elements));
    auto engine = std::make_shared<Descriptor>();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    engine->finalized = true;
    engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
        d.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    config.attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = {
        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, std::vector<char>(8), {engine}};
    config.finalized = true;
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
    std::string text;
    write_text(*d.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG), text);
    *count = static_cast<std::int64_t>(text.size());
    text.copy(static_cast<char*>(elements), static_cast<std::size_t>(requested));
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    *count = 1;
    *handle_of(*static_cast<cudnnBackendDescriptor_t*>(elements)) = d.child(name);
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    *count = 1;
    *static_cast<cudnnBackendNumericalNote_t*>(elements) = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64) {
    *count = 1;
    std::memcpy(elements, &kWorkspace, sizeof kWorkspace);
    return CUDNN_STATUS_SUCCESS;
  }
  return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the host device does not tell this attribute");
}

void dl_host_device_refuse_graphs(bool refuses) {
  refuses_graphs = refuses;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  if (refuses_graphs) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "no engine runs a graph now");
  static std::atomic<std::uint64_t> runs{0};
  const Descriptor& given = **handle_of(pack);
  const auto& numbers = given.attributes.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto& pointers = given.attributes.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (!given.finalized || numbers.count != pointers.count) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the variant pack is not finalized, or not whole");
  }
  void* const workspace = given.get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  const Shared operations = (*handle_of(plan))
                                ->child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                                ->child(CUDNN_ATTR_ENGINECFG_ENGINE)
                                ->child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  std::map<std::int64_t, void*> memory;
  auto constants = std::make_shared<std::map<std::int64_t, float>>();
  for (std::int64_t i = 0; i < numbers.count; ++i) {
    std::int64_t number = 0;
    void* pointer = nullptr;
    std::memcpy(&number, numbers.bytes.data() + 8 * i, 8);
    std::memcpy(&pointer, pointers.bytes.data() + 8 * i, 8);
    if (place_of(pointer) == Place::kDevice) {
      if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) {
        return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor is not aligned");
      }
      memory[number] = pointer;
    } else {
      memory[number] = &((*constants)[number] = *static_cast<const float*>(pointer));
    }
  }
  if (place_of(workspace) != Place::kDevice) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no workspace");
  }
  const cudaError_t status = enqueue(handle->stream, [operations, memory, constants, workspace] {
    std::memset(workspace, 0xff, kWorkspace);
    compute(operations->children(CUDNN_ATTR_OPERATIONGRAPH_OPS), memory, runs.fetch_add(1));
  });
  return status == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "the stream refused the work");
}

}  // extern "C"
