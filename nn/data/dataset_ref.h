// DatasetRef: a parameter that takes a dataset in any of three ways.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "nn/data/dataset.h"

namespace dl::data {

// Borrows a dataset that has a name and must outlive its user, owns a temporary, or shares a
// std::shared_ptr. Null only if that pointer is.
class DatasetRef {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  DatasetRef(const Dataset& borrowed)
      : dataset_(std::shared_ptr<void>(), &borrowed) {}  // a pointer that does not destroy it
  template <std::derived_from<Dataset> D>
    requires(!std::is_const_v<D>)
  DatasetRef(D&& temporary) : dataset_(std::make_shared<D>(std::forward<D>(temporary))) {}
  template <typename D>
    requires std::convertible_to<std::shared_ptr<D>, std::shared_ptr<const Dataset>>
  DatasetRef(std::shared_ptr<D> shared) : dataset_(std::move(shared)) {}
  // NOLINTEND(google-explicit-constructor)

  const Dataset& operator*() const noexcept { return *dataset_; }
  const Dataset* operator->() const noexcept { return dataset_.get(); }
  const std::shared_ptr<const Dataset>& share() const noexcept { return dataset_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
};

}  // namespace dl::data
