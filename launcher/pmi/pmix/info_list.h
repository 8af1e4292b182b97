// C++ owners of libpmix's values.
#pragma once

#include <pmix.h>
#include <pmix_server.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dl::pmix {

// A list of keys with values, as libpmix takes it. Copies what it is given.
class InfoList {
 public:
  InfoList() = default;
  InfoList(const InfoList&) = delete;
  InfoList& operator=(const InfoList&) = delete;
  ~InfoList() {
    for (pmix_info_t& info : infos_) PMIX_INFO_DESTRUCT(&info);
  }

  void add(const char* key, const std::string& text, pmix_data_type_t type = PMIX_STRING) {
    load(key, text.c_str(), type);
  }
  void add(const char* key, std::uint32_t number) { load(key, &number, PMIX_UINT32); }
  void add(const char* key, std::uint16_t number) { load(key, &number, PMIX_UINT16); }
  void add(const char* key, bool flag) { load(key, &flag, PMIX_BOOL); }
  void add_rank(const char* key, pmix_rank_t rank) { load(key, &rank, PMIX_PROC_RANK); }
  void add_list(const char* key, InfoList& list) {
    pmix_data_array_t array{PMIX_INFO, list.size(), list.data()};
    load(key, &array, PMIX_DATA_ARRAY);
  }
  void add_procs(const char* key, std::vector<pmix_proc_t> procs) {
    pmix_data_array_t array{PMIX_PROC, procs.size(), procs.data()};
    load(key, &array, PMIX_DATA_ARRAY);
  }
  void add_bytes(const char* key, const std::string& bytes) {
    pmix_byte_object_t object{const_cast<char*>(bytes.data()), bytes.size()};
    load(key, &object, PMIX_BYTE_OBJECT);
  }
  void add_size(const char* key, std::size_t number) { load(key, &number, PMIX_SIZE); }

  pmix_info_t* data() { return infos_.data(); }
  std::size_t size() const { return infos_.size(); }

 private:
  void load(const char* key, const void* value, pmix_data_type_t type) {
    pmix_info_t& info = infos_.emplace_back();
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, key, value, type);
  }

  std::vector<pmix_info_t> infos_;
};

}  // namespace dl::pmix
