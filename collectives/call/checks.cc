#include "collectives/call/checks.h"

#include "collectives/call/descriptor.h"
#include "core/base/error.h"

namespace dl::collectives {

void check_reduction(DType dtype, ReduceOp op, std::string_view operation) {
  DL_CHECK(!is_floating(dtype) || op < ReduceOp::kBand, kDType,
           "{}: {} has no meaning for {}; it takes integers and bool", operation, name_of(op),
           short_name(dtype));
  DL_CHECK(dtype != DType::kBool || op != ReduceOp::kAvg, kDType,
           "{}: avg has no meaning for bool; sum is \"or\", prod is \"and\"", operation);
}

}  // namespace dl::collectives
