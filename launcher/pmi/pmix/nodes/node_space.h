// NodeSpace: what the ranks of a job exchange over PMIx, as one node knows it: its own ranks' calls
// go out as notes, and the notes of all nodes, its own included, say what has happened. All nodes
// read them in one order, so they come to the same results without asking each other. Without
// libpmix and without sockets.
//
// One thread. Answers are never given inside the call that asks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/pmi/pmix/nodes/name_board.h"
#include "launcher/pmi/pmix/nodes/note.h"

namespace dl::pmix {

// A node of the job, as the ranks see it.
struct Node {
  std::string host;
  std::vector<std::uint32_t> ranks = {};  // ascending
};

class NodeSpace {
 public:
  // What a rank has put for others, or a status of libpmix that says why it is not there.
  using Answer = std::function<void(std::int32_t status, const std::string& bytes)>;

  struct Events {
    std::function<void(const Note&)> write;
    // Every node has entered. A host that several nodes name has the node's number behind it.
    std::function<void(const std::vector<Node>& nodes)> on_nodes;
    std::function<void(std::uint32_t rank)> on_connected;  // any rank of the job
    std::function<void(std::uint32_t rank)> on_ended;      // a rank of another node
    // Another node wants to know what this rank, which is of this node, has put or will put.
    std::function<void(std::uint32_t rank, Answer answer)> on_asked;
  };
  // `ended_status`: what ask() answers for a rank that has ended.
  NodeSpace(std::uint32_t node, std::uint32_t nodes, std::int32_t ended_status, Events events);

  // To be called once, before all others.
  void enter(const Node& self);
  // The next note of the log. Notes that no node could have written are ignored.
  void take(const Note& note);

  // A rank of this node has come to MPI_Init, or has ended without MPI_Finalize.
  void connected(std::uint32_t rank);
  void ended(std::uint32_t rank);

  // Each node that has ranks among `ranks` calls gather() with the same name, and gets what all of
  // them have given, in the order of the nodes. The n-th call with a name meets the n-th of the
  // others. A node is not waited for whose ranks among them have all come to MPI_Init and ended: so
  // does libpmix within a node.
  struct Gathering {
    std::string name;
    std::vector<std::uint32_t> ranks = {};  // empty: all ranks of the job
    std::string bytes = {};
    bool wants_number = false;  // that no other gathering of the job has
  };
  struct Gathered {
    std::string bytes;
    std::uint64_t number = 0;  // 0: none was wanted
  };
  void gather(Gathering gathering, std::function<void(const Gathered&)> done);
  // Asks the node of another rank for what that rank has put.
  void ask(std::uint32_t rank, Answer answer);

  void publish(std::uint32_t rank, const NameBoard::Entries& entries,
               std::function<void(bool is_new)> done);
  void look_up(std::vector<std::string> names, bool waits,
               std::function<void(const NameBoard::Entries&)> answer);
  void unpublish(std::uint32_t rank, std::vector<std::string> names, std::function<void()> done);

 private:
  using GatheringKey = std::pair<std::string, std::uint64_t>;
  struct Parts {
    std::vector<std::uint32_t> ranks;
    bool wants_number = false;
    std::map<std::uint32_t, std::string> by_node;
  };
  struct Question {
    std::uint32_t rank;
    Answer answer;
  };

  bool is_here(std::uint32_t rank) const { return node_of(rank) == node_; }
  std::uint32_t node_of(std::uint32_t rank) const;
  void write(Note note);
  void take_node(const Note& note);
  void take_gather(const Note& note);
  void take_ended(std::uint32_t rank);
  void take_ask(const Note& note);
  void take_publish(const Note& note);
  void take_look_up(const Note& note);
  bool is_complete(const Parts& parts) const;
  void end_gathering(std::map<GatheringKey, Parts>::iterator at);
  // Removes and returns what waits for the note `number` of this node.
  template <typename Function>
  Function take_waiting(std::map<std::uint64_t, Function>& waiting, const Note& note);

  const std::uint32_t node_;
  const std::uint32_t nodes_wanted_;
  const std::int32_t ended_status_;
  Events events_;
  std::map<std::uint32_t, Node> nodes_;
  std::map<std::uint32_t, std::uint32_t> node_of_rank_;  // complete once all nodes have entered
  std::set<std::uint32_t> connected_;
  std::set<std::uint32_t> ended_;
  NameBoard names_;

  std::map<std::string, std::uint64_t> own_gatherings_;  // by name: how many were begun here
  std::map<GatheringKey, Parts> gatherings_;
  std::map<GatheringKey, std::function<void(const Gathered&)>> gathering_here_;
  std::uint64_t last_number_ = 0;  // of a gathering

  std::uint64_t last_question_ = 0;
  std::map<std::uint64_t, Question> asked_;
  std::map<std::uint64_t, std::function<void(bool)>> publishing_;
  std::map<std::uint64_t, std::function<void(const NameBoard::Entries&)>> looking_up_;
  std::map<std::uint64_t, std::function<void()>> unpublishing_;
};

}  // namespace dl::pmix
