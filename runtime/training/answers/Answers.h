//===- Answers.h - What the model says while it trains ----------------------------------------===//
#ifndef RUNTIME_TRAINING_ANSWERS_ANSWERS_H
#define RUNTIME_TRAINING_ANSWERS_ANSWERS_H

#include "runtime/training/answers/Vocabulary.h"
#include "runtime/training/session/Session.h"
#include <optional>

namespace omnibal::rt {

/// What the model answered, and what the sample has in its place. Texts are empty where the folder
/// of weights has no tokenizer.json; the leader alone has them.
struct Answer {
  std::string sample; ///< its key
  std::vector<int32_t> ids, expectedIds;
  std::string text, expected;
  int64_t tokensRun = 0; ///< in all runs that it took
};

/// Greedy answers to the prompts of a few samples (--sample-every), by the program's own mode
/// "evaluate": a run over the prompt, and one over each token of the answer, while attention keeps
/// keys and values (KeptKeys.h). Where program or backend cannot do so, each run is one over all
/// that there is of the sample. A prompt is a sample up to its first label behind the last picture.
/// Nothing that trains is changed.
class Answers {
public:
  Answers(Session &session, const DataSource &training);

  /// Reads the samples and the tokenizer; all ranks call it. Errors are agreed on.
  Status open();
  bool isDue(int64_t completed, int64_t total) const;
  /// All ranks call it, while no step is under way.
  Result<std::vector<Answer>> run();
  /// What keys and values of answers that run at one time take of this rank's memory, if each has
  /// so many tokens with its prompt; 0 where they cannot be kept.
  static int64_t keptBytes(const Session &session, int64_t tokens);

private:
  struct Prompt {
    Sample sample; ///< cut where the answer begins
    std::vector<int32_t> expected;
    std::vector<float> pixels; ///< on ranks that read them
  };
  struct Ongoing {
    std::vector<int32_t> ids;
    bool ended = false;
    int64_t tokensRun = 0;
    KeptKeys kept; ///< on ranks that run the answer
  };
  class Wave;

  Status openSamples();
  Status openTexts();
  Status readTexts(const FolderFiles &folder);
  Result<Prompt> read(int64_t number) const;
  Status advance(size_t first, std::vector<Ongoing> &answers);
  Result<bool> canKeep() const;
  /// The most tokens that a prompt and its answer have together.
  int64_t mostTokens(const Prompt &prompt) const;
  bool hasRoom(const Prompt &prompt, const Ongoing &answer) const;

  Session &s;
  const DataSource *data;
  std::vector<Prompt> prompts;
  std::vector<int32_t> ends;
  std::optional<Vocabulary> vocabulary;
  bool keeps = false; ///< keys and values, while answers are made
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_ANSWERS_ANSWERS_H
