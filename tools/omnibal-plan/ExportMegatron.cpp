#include "tools/omnibal-plan/Export.h"
#include <algorithm>

namespace omnibal::plan {
namespace {

using namespace planner;

std::string number(int64_t value) { return std::to_string(value); }

class Megatron {
public:
  Megatron(const Problem &problem, const Plan &plan)
      : problem(problem), plan(plan), stages(problem.cluster.stages),
        chunks(static_cast<int64_t>(plan.chunkStage.size())) {}

  Exported run() {
    for (int64_t c = 0; c < chunks; ++c)
      if (plan.chunkStage[c] != c % stages || chunks % stages != 0) {
        result.problem = "Megatron has chunk c on stage c mod " + number(stages) +
                         " and equally many chunks a stage; chunk " + number(c) + " of " +
                         number(chunks) + " is on stage " + number(plan.chunkStage[c]);
        return std::move(result);
      }
    findLetters();
    if (problem.cluster.parts > 1)
      flag("--tensor-model-parallel-size", number(problem.cluster.parts));
    flag("--pipeline-model-parallel-size", number(stages));
    flag("--pipeline-model-parallel-layout", "'" + layout() + "'");
    flag("--num-layers", number(std::count(letters.begin(), letters.end(), 't')));
    schedule();
    recomputation();
    result.text += "\n";
    return std::move(result);
  }

private:
  void flag(const std::string &words) {
    result.text += (result.text.empty() ? "" : " \\\n") + words;
  }
  void flag(const char *name, const std::string &value) { flag(std::string(name) + " " + value); }
  void warn(const std::string &text) { result.warnings.push_back(text); }

  /// A letter a layer: E, t, L, and ' ' for what Megatron's layout does not know.
  void findLetters() {
    std::vector<char> isFed(problem.layers.size(), 0);
    for (const Edge &edge : problem.edges)
      isFed[edge.to] = 1;
    int64_t encoder = 0, others = 0;
    bool hasEmbedding = false;
    for (size_t l = 0; l < problem.layers.size(); ++l) {
      const std::string &kind = problem.layers[l].kind;
      bool inEncoder = kind == "vision" || kind == "projector";
      char letter = inEncoder ? ' ' : kind == "head" ? 'L' : 't';
      if (letter == 't' && !hasEmbedding && !isFed[l]) {
        letter = 'E';
        hasEmbedding = true;
      }
      encoder += inEncoder;
      others += letter == 't' && kind != "language";
      letters.push_back(letter);
    }
    if (encoder > 0)
      warn(number(encoder) +
           " layers of kind vision and projector have no letter in the layout: Megatron builds its "
           "own encoder, on the first pipeline stage or outside the pipeline, so chunks with such "
           "layers hold fewer or none here; the plan's times hold only for a trainer that places "
           "these layers too (--export json names them)");
    if (others > 0)
      warn(number(others) + " layers of other kinds than vision, projector, language and head are "
                            "taken for transformer layers");
    if (!hasEmbedding)
      warn("no layer looks like the token embedding (a language layer that nothing feeds); "
           "Megatron has one on the first stage");
    else if (chunkOf(letters.find('E')) != 0)
      warn("the embedding is planned on chunk " + number(chunkOf(letters.find('E'))) +
           "; Megatron computes it on the first one");
    auto heads = std::count(letters.begin(), letters.end(), 'L');
    if (heads == 0)
      warn("no layer is of kind head; Megatron computes logits and loss on the last chunk");
    else if (heads > 1 || letters.back() != 'L')
      warn("Megatron computes logits and loss, once, on the last chunk; the plan has " +
           number(heads) + " layers of kind head, the first one on chunk " +
           number(chunkOf(letters.find('L'))));
  }

  int64_t chunkOf(size_t layer) const {
    return std::upper_bound(plan.cuts.begin(), plan.cuts.end(), static_cast<int64_t>(layer)) -
           plan.cuts.begin() - 1;
  }
  std::vector<int64_t> transformerLayers(int64_t chunk) const {
    std::vector<int64_t> list;
    for (int64_t l = plan.cuts[chunk]; l < plan.cuts[chunk + 1]; ++l)
      if (letters[l] == 't')
        list.push_back(l);
    return list;
  }

  /// The embedding first and the loss last, wherever the plan has them: Megatron knows no other
  /// place.
  std::string layout() const {
    std::string text = "E";
    for (int64_t c = 0; c < chunks; ++c) {
      text += c > 0 ? "|" : "";
      size_t count = transformerLayers(c).size();
      text += count == 0 ? "" : count == 1 ? "t" : "t*" + std::to_string(count);
    }
    return text + "L";
  }

  void schedule() {
    flag("--micro-batch-size", "1");
    flag("--global-batch-size", number(problem.microbatches * problem.cluster.dataParallel));
    if (problem.cluster.divides())
      flag("--use-distributed-optimizer");
    if (stages > 1 && problem.cluster.dataParallel > 1 &&
        problem.cluster.rankOrder == rt::RankOrder::Stage)
      flag("--use-tp-pp-dp-mapping"); // else the replicas of a stage are neighbors
    bool interleaved = chunks > stages;
    if (interleaved && problem.microbatches % stages != 0)
      warn(
          "Megatron's interleaved schedule wants a number of micro-batches that is a multiple of " +
          number(stages) + ", not " + number(problem.microbatches));
    const std::string &name = plan.schedule;
    if (name != "1f1b" && !name.starts_with("interleaved:"))
      warn("Megatron runs " + std::string(interleaved ? "interleaved 1f1b" : "1f1b") + " and not " +
           plan.schedule + (name == "gpipe" ? "" : " (it takes no action lists)") +
           "; plan with that schedule to know its step");
  }

  /// One granularity for all, and one number of first layers of every chunk.
  void recomputation() {
    int64_t all = 0, recomputed = 0, whole = 0, most = 0, vision = 0;
    bool areFirst = true, areEqual = true, areOneOption = true;
    std::string option;
    for (size_t l = 0; l < letters.size(); ++l)
      vision += letters[l] != 't' && plan.remat[l] != "keep";
    for (int64_t c = 0; c < chunks; ++c) {
      int64_t here = 0, position = 0;
      std::vector<int64_t> layers = transformerLayers(c);
      for (int64_t l : layers) {
        ++all;
        if (plan.remat[l] != "keep") {
          areFirst &= here == position;
          areOneOption &= option.empty() || option == plan.remat[l];
          option = plan.remat[l];
          whole += option == "full";
          ++here;
        }
        ++position;
      }
      most = std::max(most, here);
      recomputed += here;
    }
    for (int64_t c = 0; c < chunks; ++c) {
      std::vector<int64_t> layers = transformerLayers(c);
      auto here = std::count_if(layers.begin(), layers.end(),
                                [&](int64_t l) { return plan.remat[l] != "keep"; });
      areEqual &= here == std::min<int64_t>(most, static_cast<int64_t>(layers.size()));
    }
    if (vision > 0)
      warn(number(vision) + " recomputed layers are no transformer layers of the layout; "
                            "Megatron's flags do not reach them");
    if (recomputed == 0)
      return;
    if (whole == 0 && recomputed == all) {
      flag("--recompute-granularity", "selective");
      warn("Megatron's selective recomputation is that of core attention (see its "
           "--recompute-modules); the plan's option" +
           std::string(areOneOption ? " " + option + " is" : "s are") + " what the problem says");
      return;
    }
    flag("--recompute-granularity", "full");
    if (whole < recomputed)
      warn(number(recomputed - whole) + " layers recompute a part only; Megatron has one "
                                        "granularity, so they are recomputed whole");
    if (recomputed == all) {
      flag("--recompute-method", "uniform");
      flag("--recompute-num-layers", "1");
      return;
    }
    flag("--recompute-method", "block");
    flag("--recompute-num-layers", number(most));
    if (!areEqual)
      warn("Megatron recomputes one number of layers on every chunk; " + number(most) +
           ", the plan's largest, is given (the plan recomputes " + number(recomputed) + " of " +
           number(all) + " layers)");
    if (!areFirst)
      warn("Megatron recomputes the first layers of a chunk; the plan recomputes others of them, "
           "which may hold other bytes");
  }

  const Problem &problem;
  const Plan &plan;
  int64_t stages, chunks;
  std::string letters; ///< by layer
  Exported result;
};

} // namespace

Exported exportMegatron(const Problem &problem, const Plan &plan) {
  return Megatron(problem, plan).run();
}

} // namespace omnibal::plan
