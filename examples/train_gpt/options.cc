#include "examples/train_gpt/options.h"

#include <fmt/format.h>

#include "examples/support/training/choices/rows.h"
#include "examples/support/training/choices/schedules.h"
#include "examples/support/training/command_line.h"
#include "examples/train_gpt/models.h"

namespace dl::examples::gpt {
namespace {

void add_text(CLI::App& app, Options& o) {
  app.add_option("--text", o.text, "the text to learn: a file in UTF-8")->check(refuse_empty);
  app.add_option("--tokenizer", o.tokenizer,
                 "folder with vocab.json and merges.txt; default: the tokens are the bytes")
      ->check(refuse_empty);
  app.add_option("--val-fraction", o.val_fraction,
                 "how much of the text's end is held out for validation; 0: nothing")
      ->transform(real(0, 0.9))
      ->capture_default_str();
  app.add_option("--context", o.context, "tokens of a sample, each of which is predicted")
      ->transform(whole(1, 1'000'000))
      ->capture_default_str();
}

void add_model(CLI::App& app, Options& o) {
  app.add_option("--model", o.model, "the network to train: a size of GPT-2 or minGPT")
      ->check(CLI::IsMember(names_of(models())))
      ->capture_default_str();
  app.add_option("--layers", o.layers, "default: the model's")->transform(whole(1, 1000));
  app.add_option("--heads", o.heads, "default: the model's")->transform(whole(1, 1000));
  app.add_option("--width", o.width, "of the embedding; default: the model's")
      ->transform(whole(1, 1'000'000));
  app.add_option("--dropout", o.dropout, "of embedding, attention and each block")
      ->transform(real(0, 1))
      ->capture_default_str();
  app.add_option("--load,--init-from", o.run.load,
                 "begin with these parameters: a safetensors file, an index of several, or a "
                 "folder with one of them")
      ->check(refuse_empty);
  app.add_option("--save", o.run.save, "write the trained parameters to this safetensors file")
      ->check(refuse_empty);
}

void add_length(CLI::App& app, Options& o) {
  app.add_option("--steps", o.steps, "steps of the whole run, in place of --epochs")
      ->transform(whole(1, kMostCounted))
      ->excludes("--epochs");
  app.add_option("--batch-size", o.run.batch_size, "samples that a rank computes at once")
      ->transform(whole(1, kMostCounted))
      ->capture_default_str();
  app.add_option("--accumulate", o.accumulate, "batches of each rank whose gradients make a step")
      ->transform(whole(1, 1'000'000))
      ->capture_default_str();
}

void add_rate(CLI::App& app, Options& o) {
  app.add_option("--warmup-steps,--warmup", o.warmup_steps,
                 "steps in which the rate rises, before --schedule step or cosine")
      ->transform(whole(0, kMostCounted))
      ->capture_default_str();
  app.add_option("--min-lr", o.min_lr, "rate at the end of --schedule cosine")
      ->transform(real(0, 1e9))
      ->capture_default_str();
}

void add_generation(CLI::App& app, Options& o) {
  auto* const generate =
      app.add_option("--generate", o.prompt, "at the end, write a text that begins with this one")
          ->type_name("TEXT");
  app.add_option("--max-new-tokens", o.max_new_tokens, "length of the text, without its beginning")
      ->transform(whole(1, kMostCounted))
      ->needs(generate)
      ->capture_default_str();
  app.add_option("--temperature", o.temperature,
                 "divides the logits; 0 takes the most probable token")
      ->transform(real(0, 1e9))
      ->needs(generate)
      ->capture_default_str();
  app.add_option("--top-k", o.top_k, "draw from the k most probable tokens; 0: from all")
      ->transform(whole(0, kMostCounted))
      ->needs(generate)
      ->capture_default_str();
  app.add_option("--top-p", o.top_p, "draw from the most probable tokens that together have this")
      ->transform(real(0, 1))
      ->needs(generate)
      ->capture_default_str();
}

// Refuses values that do not go together.
void settle(const CommandLine& line, const Options& o) {
  const auto require = CommandLine::require;
  require(!o.text.empty() || (o.run.epochs == 0 && o.prompt && o.steps == 0), "--text",
          "is needed, unless --epochs 0 and --generate only write a text");
  const ScheduleRow& schedule = find_schedule(o.run.schedule);
  require(schedule.warms_up || o.warmup_steps == 0, "--warmup-steps",
          "needs --schedule step or cosine");
  require(o.run.schedule == "cosine" || !line.is_given("--min-lr"), "--min-lr",
          "needs --schedule cosine");
  require(o.min_lr <= o.run.lr, "--min-lr", "is more than --lr");
  require(o.eval_every == 0 || o.val_fraction > 0, "--eval-every",
          "needs a part of the text: give a --val-fraction above 0");
  require(o.top_p > 0, "--top-p", "is 0, wanted more");
  require(o.dropout < 1, "--dropout", "is 1, wanted less");
  const Sizes sizes = sizes_of(o);
  require(sizes.width % sizes.heads == 0, line.is_given("--heads") ? "--heads" : "--width",
          fmt::format("{} heads do not divide a width of {}", sizes.heads, sizes.width));
  require(sizes.positions == 0 || o.context <= sizes.positions, "--context",
          fmt::format("is more than the {} positions of --model {}", sizes.positions, o.model));
}

}  // namespace

std::variant<Options, int> parse_options(int argc, const char* const* argv) {
  Options o;
  CommandLine line(
      "train_gpt",
      "Trains a GPT on a text, and lets it write: alone, or on many ranks under dlrun.", o.run);
  CLI::App& app = line.app();
  add_text(app, o);
  add_model(app, o);
  line.add_epochs();
  add_length(app, o);
  line.add_optimizer();
  add_rate(app, o);
  line.add_clip_norm();
  line.add_machine();
  line.add_checkpoints();
  app.add_option("--eval-every", o.eval_every,
                 "steps between two validations; 0: at the end only. With --checkpoint-dir, the "
                 "best model is kept there as best.safetensors")
      ->transform(whole(0, kMostCounted))
      ->capture_default_str();
  add_generation(app, o);
  line.add_output();
  if (const auto exit_code = line.parse(argc, argv, [&] { settle(line, o); })) return *exit_code;
  return o;
}

std::string length_of_run(const Options& o) {
  return o.steps > 0 ? fmt::format(" --steps {}", o.steps)
                     : fmt::format(" --epochs {}", o.run.epochs);
}

std::string settings_of_steps(const Options& o, std::int64_t tokens) {
  const Sizes sizes = sizes_of(o);
  std::string text = fmt::format(
      "--text {} of {} tokens --tokenizer {} --val-fraction {} --context {} --layers {} --heads {} "
      "--width {} --dropout {} --batch-size {} --accumulate {} --optimizer {} --lr {} --momentum "
      "{} --weight-decay {} --clip-norm {} --seed {} --amp {}",
      o.text, tokens, o.tokenizer.empty() ? "bytes" : o.tokenizer, o.val_fraction, o.context,
      sizes.layers, sizes.heads, sizes.width, o.dropout, o.run.batch_size, o.accumulate,
      o.run.optimizer, o.run.lr, o.run.momentum, o.run.weight_decay, o.run.clip_norm, o.run.seed,
      o.run.amp);
  if (o.run.schedule != "none") {
    text += fmt::format(" --schedule {} --warmup-steps {} --min-lr {}{}", o.run.schedule,
                        o.warmup_steps, o.min_lr, length_of_run(o));
  }
  return text;
}

}  // namespace dl::examples::gpt
