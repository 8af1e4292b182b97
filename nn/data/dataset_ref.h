// DatasetRef and IterableDatasetRef: parameters that take a dataset in any of three ways.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "nn/data/dataset.h"

namespace dl::data {

// Borrows an lvalue, which must outlive its user; owns a temporary; or shares a std::shared_ptr.
// Null only if that shared_ptr is null.
template <typename Base>
class AnyDatasetRef {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  AnyDatasetRef(const Base& borrowed)
      : dataset_(std::shared_ptr<void>(), &borrowed) {}  // a pointer that does not destroy it
  template <std::derived_from<Base> D>
    requires(!std::is_const_v<D>)
  AnyDatasetRef(D&& temporary) : dataset_(std::make_shared<D>(std::forward<D>(temporary))) {}
  template <typename D>
    requires std::convertible_to<std::shared_ptr<D>, std::shared_ptr<const Base>>
  AnyDatasetRef(std::shared_ptr<D> shared) : dataset_(std::move(shared)) {}
  // NOLINTEND(google-explicit-constructor)

  const Base& operator*() const noexcept { return *dataset_; }
  const Base* operator->() const noexcept { return dataset_.get(); }
  const std::shared_ptr<const Base>& share() const noexcept { return dataset_; }

 private:
  std::shared_ptr<const Base> dataset_;
};

using DatasetRef = AnyDatasetRef<Dataset>;
using IterableDatasetRef = AnyDatasetRef<IterableDataset>;

}  // namespace dl::data
