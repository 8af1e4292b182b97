// How train_gpt trains and tests a model, and lets it write.
#pragma once

#include <string>

#include "collectives/api/process_group.h"
#include "examples/support/training/loop.h"
#include "examples/train_gpt/corpus.h"
#include "examples/train_gpt/options.h"
#include "nn/models/sequence/gpt2.h"

namespace dl::examples::gpt {

struct TextTraining {
  nn::models::GPT2LMHeadModel& model;  // on `device`
  const Corpus& corpus;
  const Options& options;
  Device device;
  const Ref<collectives::ProcessGroup>& group;
  Reporter& reporter;
  Profiling& profiling;
};

// Trains the model for --steps or --epochs, as train() in loop.h.
Trained train(const TextTraining& training);

// Mean cross entropy of a token in nats, and e to its power. The ranks share the work; each token
// counts once for any number of them. Afterwards the model is in evaluation mode. Throws
// kInvalidArgument with the module's name if a loss is no number.
Tested test(nn::Module& model, const data::Dataset& samples, const Options& options, Device device,
            collectives::ProcessGroup& group);

// A text of at most --max-new-tokens tokens that follows the prompt; it ends before the tokenizer's
// end of a text. After as many tokens as the model has positions, it goes on from the last half of
// them. Depends on the model, the prompt and --seed only. Leaves the model in evaluation mode.
std::string write_text(nn::models::GPT2LMHeadModel& model, const Tokenizer& tokenizer,
                       const Options& options, Device device);

}  // namespace dl::examples::gpt
