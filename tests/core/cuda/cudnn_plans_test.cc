// NVIDIA's cuDNN has engines for the graphs that dlrun makes. It compiles them for the properties
// of a device, so that no GPU is needed; their results are not seen here.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "core/kernels/cuda/attention/cudnn_attention.h"
#include "core/kernels/cuda/cudnn/graph.h"
#include "core/kernels/cuda/norm/cudnn_norm.h"

namespace dl::cuda {

// In the place of the module's, which names the operation.
void throw_cudnn(cudnnStatus_t status, const char* call) {
  char why[2000];
  cudnnGetLastErrorString(why, sizeof why);
  throw std::runtime_error(std::string(call) + ": " + cudnnGetErrorString(status) + ": " + why);
}

}  // namespace dl::cuda

namespace dl::kernels::cuda {
namespace {

// The properties of an H200 with another compute capability, and with the shared memory of that.
std::string properties_of(int capability) {
  const std::string shared = capability == 80 ? "166912" : "232448";
  const std::string of_capability = std::to_string(10 * capability);
  return R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
"regsPerBlock": 65536, "multiProcessorCount": 132, "smClockRateKHz": 1980000,
"memClockRateKHz": 3201000, "l2CacheSize": 62914560, "warpSize": 32,
"maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024,
"maxRegistersPerSM": 65536, "pciDeviceId": 0, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
"maxThreadsPerSM": 2048, "isTccDriver": 0, "supportCoopLaunch": 1, "driverVer": 13000,
"driverVersion": 13000, "totalGlobalMem": 150754820096, "cudaDeviceId": 0,
"deviceName": "a device", "maxSharedMemoryPerBlockOptin": )" +
         shared + R"(, "deviceVer": )" + of_capability + "}";
}

struct Case {
  int batch, heads, queries, keys, width;
  bool causal;
  bool heads_behind_rows = false;
};

class CudnnPlans : public testing::Test {
 protected:
  // The oldest that computes attention.
  void SetUp() override {
    if (cudnnGetVersion() < 91600) GTEST_SKIP() << "cuDNN is older than 9.16";
  }

  static cudnnBackendDescriptor_t device([[maybe_unused]] int capability) {
#if CUDNN_VERSION < 90800
    return nullptr;
#else
    const std::string json = properties_of(capability);
    cudnnBackendDescriptor_t made = nullptr;
    EXPECT_EQ(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(
        cudnnBackendSetAttribute(made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                 static_cast<std::int64_t>(json.size()), json.data()),
        CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_SUCCESS);
    return made;
#endif
  }

  static HeadRows rows(const Case& c, int count) {
    HeadRows made;
    made.batch_step = std::int64_t{c.heads} * count * c.width;
    made.head_step = c.heads_behind_rows ? c.width : count * c.width;
    made.row_step = c.heads_behind_rows ? c.heads * c.width : c.width;
    return made;
  }

  static AttentionShape shape(const Case& c, DType dtype) {
    AttentionShape made;
    made.dtype = dtype;
    made.heads = c.heads;
    made.batches = std::int64_t{c.batch} * c.heads;
    made.queries = c.queries;
    made.keys = c.keys;
    made.width = c.width;
    made.causal = c.causal;
    made.in_packs = true;
    made.scale = 0.125F;
    return made;
  }

  static void plan(const Case& c, DType dtype, int capability) {
    SCOPED_TRACE(testing::Message()
                 << "sm_" << capability << ", " << c.queries << " queries, " << c.keys << " keys, "
                 << c.width << " wide, causal " << c.causal);
    cudnnBackendDescriptor_t properties = device(capability);
    const AttentionShape of = shape(c, dtype);
    const HeadRows queries = rows(c, c.queries);
    const HeadRows keys = rows(c, c.keys);
    const dnn::Plan forward =
        dnn::plan_of(attention_graph(of, queries, keys, keys, queries), {.properties = properties});
    EXPECT_TRUE(forward);
    EXPECT_LE(forward.workspace(), std::size_t{1} << 20) << "a matrix of scores?";
    AttentionGradients tensors;
    tensors.grad = tensors.query = tensors.out = tensors.dquery = queries;
    tensors.key = tensors.value = tensors.dkey = tensors.dvalue = keys;
    EXPECT_TRUE(dnn::plan_of(attention_backward_graph(of, tensors),
                             {.properties = properties, .deterministic = false}));
    cudnnBackendDestroyDescriptor(properties);
  }
};

TEST_F(CudnnPlans, ExistForAttention) {
  plan({2, 4, 128, 128, 64, true}, DType::kF16, 90);
  plan({2, 3, 77, 200, 64, false, true}, DType::kBF16, 90);
  plan({1, 2, 1024, 1024, 128, true}, DType::kBF16, 90);
  plan({1, 2, 100, 100, 40, true}, DType::kF16, 80);
}

TEST_F(CudnnPlans, ExistForBatchNorm) {
  struct Batch {
    BatchNormGraphShape shape;
    int capability;
  };
  for (const Batch& c :
       {Batch{{DType::kF16, 8, 64, 28 * 28, true}, 90}, Batch{{DType::kBF16, 3, 24, 35, false}, 90},
        Batch{{DType::kF32, 2, 12, 1, true}, 80}, Batch{{DType::kBF16, 3, 24, 35, true, true}, 90},
        Batch{{DType::kF16, 8, 64, 28 * 28, true, true, true}, 90}}) {
    SCOPED_TRACE(testing::Message() << "sm_" << c.capability << ", " << c.shape.channels
                                    << " channels in " << static_cast<int>(c.shape.dtype));
    cudnnBackendDescriptor_t properties = device(c.capability);
    for (const dnn::Graph& graph :
         {batch_norm_graph(c.shape), batch_norm_backward_graph(c.shape)}) {
      const dnn::Plan plan = dnn::plan_of(graph, {.properties = properties});
      EXPECT_TRUE(plan);
      EXPECT_LE(plan.workspace(), std::size_t{1} << 18) << "a copy of the batch?";
      const std::string text = plan.text();
      const dnn::Plan loaded = dnn::loaded_plan(graph, text, {.properties = properties});
      ASSERT_TRUE(loaded);
      EXPECT_EQ(loaded.workspace(), plan.workspace());
      EXPECT_EQ(loaded.text(), text);
    }
    cudnnBackendDestroyDescriptor(properties);
  }
}

// All that can be asked of recurrent layers without a GPU.
TEST_F(CudnnPlans, CudnnHasRecurrentLayersOfTheseForms) {
  for (const cudnnDataType_t type : {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16}) {
    for (const int width : {6, 3}) {
      cudnnRNNDescriptor_t layers = nullptr;
      ASSERT_EQ(cudnnCreateRNNDescriptor(&layers), CUDNN_STATUS_SUCCESS);
      const cudnnMathType_t math = type == CUDNN_DATA_FLOAT ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
      EXPECT_EQ(cudnnSetRNNDescriptor_v8(layers, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM,
                                         CUDNN_RNN_DOUBLE_BIAS, CUDNN_BIDIRECTIONAL,
                                         CUDNN_LINEAR_INPUT, type, CUDNN_DATA_FLOAT, math, 5, 6,
                                         width, 2, nullptr, CUDNN_RNN_PADDED_IO_DISABLED),
                CUDNN_STATUS_SUCCESS)
          << "type " << type << ", width " << width;
      cudnnDestroyRNNDescriptor(layers);
    }
    cudnnRNNDataDescriptor_t sequences = nullptr;
    ASSERT_EQ(cudnnCreateRNNDataDescriptor(&sequences), CUDNN_STATUS_SUCCESS);
    const int lengths[] = {4, 3, 3, 1};
    EXPECT_EQ(cudnnSetRNNDataDescriptor(sequences, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, 4,
                                        4, 5, lengths, nullptr),
              CUDNN_STATUS_SUCCESS);
    cudnnDestroyRNNDataDescriptor(sequences);
  }
}

TEST_F(CudnnPlans, DoNotExistForWhatCudnnCannotCompute) {
  cudnnBackendDescriptor_t properties = device(90);
  dnn::Graph graph;
  const dnn::Layout layout = dnn::Layout::row_major({1, 2, 32, 64});
  const auto left = graph.read(CUDNN_DATA_DOUBLE, layout);
  const auto right = graph.read(CUDNN_DATA_DOUBLE, layout.turned());
  graph.write(graph.product(left, right), CUDNN_DATA_FLOAT, dnn::Layout::row_major({1, 2, 32, 32}));
  EXPECT_FALSE(dnn::plan_of(graph, {.properties = properties}));
  cudnnBackendDestroyDescriptor(properties);
}

}  // namespace
}  // namespace dl::kernels::cuda
