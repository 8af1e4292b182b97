// NameBoard: the values that the ranks of a job publish (MPI_Publish_name), and the look-ups that
// wait for one.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <vector>

namespace dl::pmix {

class NameBoard {
 public:
  struct Entry {
    std::uint32_t owner = 0;  // the rank that has published it
    std::string value = {};
    bool is_for_one_reader = false;
  };
  using Entries = std::map<std::string, Entry>;

  struct Question {
    std::vector<std::string> names;
    bool waits = false;  // until all names are there; false: it is answered at once
    std::function<void(const Entries&)> answer;
  };

  // False: one of the names is published already, and nothing has changed.
  bool publish(const Entries& entries);
  // Answers now, or once the last name is published.
  void look_up(Question question);
  // Removes these names of `owner`; all of them if `names` is empty.
  void unpublish(std::uint32_t owner, const std::vector<std::string>& names);

 private:
  bool answer(const Question& question);

  Entries entries_;
  std::list<Question> waiting_;
};

}  // namespace dl::pmix
