// Follower: follows channels through a trace, and finds which elements belong to which
// (channels.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nn/utils/prune/labels.h"
#include "nn/utils/prune/trace.h"

namespace dl::nn::utils::prune::detail {

class Follower {
 public:
  // The rows and columns of a weight; none of a tensor that no layer uses as one.
  struct Filters {
    std::vector<Label> rows;
    std::vector<Label> columns;
  };

  // Throws kNotImplemented if the forward pass cannot be followed.
  Follower(Module& network, const Tensor& sample);

  const std::vector<OfModule>& tensors() const { return trace_.tensors(); }
  const Filters& filters(std::size_t tensor) const { return filters_[tensor]; }
  // The labels of a tensor's storage; null: only layers read it, as filters.
  const std::vector<Label>* elements(std::size_t tensor) const;
  Sets& sets() noexcept { return sets_; }

 private:
  using Operand = tape::Operand;
  using Step = tape::Step;

  struct Memory {
    std::vector<Label> labels;  // of each element; empty: not needed yet
    std::string writer;         // the operation that made the values; copies and pools keep them
  };
  // The input of a step that counts on zeros in masked channels.
  struct Reading {
    const Operand* x;
    std::vector<Label> lines;
    std::string writer;  // of x
  };

  Memory& memory_of(const Operand& operand) {
    return blocks_[static_cast<std::size_t>(operand.block)];
  }
  Label* labels(const Operand& operand);
  std::vector<Label> labels_of(const Operand& operand);
  void write(const Operand& operand, const std::vector<Label>& labels, const std::string& writer);

  void follow(const Step& step);
  void follow_elementwise(const Step& step, std::size_t inputs);
  void follow_reduction(const Step& step);
  void follow_planes(const Step& step, std::size_t output);
  void follow_norm(const Step& step);
  void follow_filters(const Step& step, std::size_t output);
  void give_up(const Step& step);
  void keep_all(const Operand& operand, const std::string& why);

  std::vector<Label> lines_of(const Operand& x, const std::string& reader);
  void write_lines(const Operand& y, const std::vector<Label>& lines, const std::string& writer);
  Label joined(Label a, Label b, const std::string& reader);
  void bind(const Operand& vector, const std::vector<Label>& lines, const std::string& reader);
  Filters* filters_in(const Operand& weight);
  void find_what_is_not_zero();
  void mask_all();
  void require_zeros(const Reading& reading);

  Trace trace_;
  Sets sets_;
  std::vector<Memory> blocks_;
  std::vector<Filters> filters_;             // of each tensor
  std::map<const Step*, Reading> readings_;  // of layers with filters
};

}  // namespace dl::nn::utils::prune::detail
