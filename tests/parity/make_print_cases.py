# Writes tests/core/tensor/print_test.cc: python make_print_cases.py > ../core/tensor/print_test.cc. Needs torch.
import torch
cases=[]
def c(cpp, t): cases.append((cpp,str(t)))
c('tensor({1.0, 2.0, 3.0})', torch.tensor([1.,2.,3.]))
c('tensor({1.5, -2.25, 0.0})', torch.tensor([1.5,-2.25,0.]))
c('tensor(3.14159)', torch.tensor(3.14159))
c('tensor(7)', torch.tensor(7))
c('tensor({1, -20, 300})', torch.tensor([1,-20,300]))
c('tensor({true, false})', torch.tensor([True,False]))
c('tensor({1e-5, 1.0, 2000.0})', torch.tensor([1e-5,1.,2000.]))
c('tensor({1e9, 1.0})', torch.tensor([1e9,1.]))
c('tensor({0.00001})', torch.tensor([0.00001]))
c('tensor({nan, inf, -inf, 1.0})', torch.tensor([float('nan'),float('inf'),-float('inf'),1.]))
c('tensor({nan, inf, 1.5})', torch.tensor([float('nan'),float('inf'),1.5]))
c('tensor({nan, inf})', torch.tensor([float('nan'),float('inf')]))
c('zeros({2, 3})', torch.zeros(2,3))
c('zeros({2, 2, 2})', torch.zeros(2,2,2))
c('arange(24).view({2, 3, 4})', torch.arange(24).view(2,3,4))
c('(arange(24) - 5).to(DType::kF32).view({2, 1, 3, 4})', (torch.arange(24)-5).float().view(2,1,3,4))
c('arange(0, 50)', torch.arange(50))
c('arange(0, 50).to(DType::kF32) / 7.0', torch.arange(50).float()/7.0)
c('arange(0, 1001)', torch.arange(1001))
c('arange(0, 1000)[999]', torch.arange(1000)[999])
c('arange(0, 2000).to(DType::kF32).view({40, 50}) / 16.0', torch.arange(2000).float().view(40,50)/16.0)
c('arange(0, 4096).view({8, 8, 64})', torch.arange(4096).view(8,8,64))
c('arange(0, 3000).view({3, 1000})', torch.arange(3000).view(3,1000))
c('zeros({0})', torch.zeros(0))
c('zeros({2, 0})', torch.zeros(2,0))
c('zeros({0, 3}, {.dtype = DType::kI64})', torch.zeros(0,3,dtype=torch.int64))
for n,d in [('F16','float16'),('BF16','bfloat16'),('F64','float64'),('I8','int8'),('U8','uint8'),('I16','int16'),('U16','uint16'),('I32','int32'),('U32','uint32'),('U64','uint64')]:
    c('tensor({1, 2, 100}, {.dtype = DType::k%s})'%n, torch.tensor([1,2,100],dtype=getattr(torch,d)))
c('tensor({0.1, 0.2, 1.0 / 3}, {.dtype = DType::kF64})', torch.tensor([.1,.2,1/3],dtype=torch.float64))
c('tensor({0.1, 0.2}, {.dtype = DType::kBF16})', torch.tensor([.1,.2],dtype=torch.bfloat16))
c('tensor({1.0, 2.0}, {.requires_grad = true})', torch.tensor([1.,2.],requires_grad=True))
c('arange(0, 26).to(DType::kF64) / 8.0', torch.arange(26).double()/8.0)
c('arange(0, 12).to(DType::kF64) / 8.0', torch.arange(12).double()/8.0)
c('relu(tensor({1.0, -2.0}, {.requires_grad = true}))', torch.relu(torch.tensor([1.,-2.],requires_grad=True)))
c('log_softmax(ones({2, 2}, {.requires_grad = true}), 1)', torch.log_softmax(torch.ones(2,2,requires_grad=True),1))
c('arange(6).view({2, 3}).t()', torch.arange(6).view(2,3).t())
c('ones({1, 1, 1, 1, 2})', torch.ones(1,1,1,1,2))
c('tensor({-0.0, 0.0})', torch.tensor([-0.0,0.0]))
c('tensor({99999.0, 100000.0})', torch.tensor([99999.,100000.]))
c('tensor({0.5, 499.0})', torch.tensor([0.5,499.0]))
c('ones({3, 30}) * 0.5', torch.ones(3,30)*0.5)
out='''// What PyTorch prints for the same values; made by tests/parity/make_print_cases.py.
#include "core/tensor/print.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/softmax/softmax.h"
#include "core/tensor/factories.h"

namespace dl {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

TEST(Print, IsPyTorchs) {
'''
for cpp,t in cases:
    out+='  EXPECT_EQ((%s).str(), R"(%s)");\n'%(cpp,t)
out+='''}

TEST(Print, GoesToAStream) {
  std::ostringstream out;
  out << tensor({1, 2}) << " " << Tensor();
  EXPECT_EQ(out.str(), "tensor([1, 2]) tensor(undefined)");
}

}  // namespace
}  // namespace dl
'''
print(out,end='')
