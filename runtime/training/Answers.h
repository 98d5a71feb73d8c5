//===- Answers.h - What the model says while it trains ----------------------------------------===//
#ifndef RUNTIME_TRAINING_ANSWERS_H
#define RUNTIME_TRAINING_ANSWERS_H

#include "runtime/training/Session.h"
#include "runtime/training/answers/Vocabulary.h"
#include <optional>

namespace omnibal::rt {

/// What the model answered, and what the sample has in its place. Texts are empty where the folder
/// of weights has no tokenizer.json; the leader alone has them.
struct Answer {
  std::string sample; ///< its key
  std::vector<int32_t> ids, expectedIds;
  std::string text, expected;
};

/// Greedy answers to the prompts of a few samples (--sample-every), by the program's own mode
/// "evaluate": each token takes a run over all that there is of the sample, as programs keep no
/// keys and values between runs. A prompt is a sample up to its first label behind the last
/// picture. Nothing that trains is changed.
class Answers {
public:
  Answers(Session &session, const DataSource &training);

  /// Reads the samples and the tokenizer; all ranks call it. Errors are agreed on.
  Status open();
  bool isDue(int64_t completed, int64_t total) const;
  /// All ranks call it, while no step is under way.
  Result<std::vector<Answer>> run();

private:
  struct Prompt {
    Sample sample; ///< cut where the answer begins
    std::vector<int32_t> expected;
    std::vector<float> pixels; ///< on ranks that read them
  };
  struct Ongoing {
    std::vector<int32_t> ids;
    bool ended = false;
  };
  class Wave;

  Status openSamples();
  Status openTexts();
  Status readTexts(const FolderFiles &folder);
  Result<Prompt> read(int64_t number) const;
  Status advance(size_t first, std::vector<Ongoing> &answers);
  bool hasRoom(const Prompt &prompt, const Ongoing &answer) const;

  Session &s;
  const DataSource *data;
  std::vector<Prompt> prompts;
  std::vector<int32_t> ends;
  std::optional<Vocabulary> vocabulary;
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_ANSWERS_H
