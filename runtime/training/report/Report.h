//===- Report.h - Banner, progress line, log, event and trace file -----------------------===//
#ifndef RUNTIME_TRAINING_REPORT_REPORT_H
#define RUNTIME_TRAINING_REPORT_REPORT_H

#include "runtime/executor/Trace.h"
#include "runtime/training/answers/Answers.h"
#include "runtime/training/evaluation/Evaluations.h"
#include "runtime/training/events/EventFile.h"
#include "runtime/training/report/PlanLog.h"
#include "runtime/training/report/StepPlace.h"
#include "runtime/training/session/Session.h"
#include "runtime/training/status/StatusFiles.h"
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace omnibal::rt {

/// Per stage: layers, ranks, parameters, planned memory, and what backends take `beside` it, by
/// rank, where that is told.
std::string banner(const Program &program, int threads, const std::vector<std::string> &beside);
/// "vision.layers.0-22, projector".
std::string summarize(const std::vector<std::string> &layers);

/// That a step ran at.
struct LearningRates {
  double usual = 0;                                     ///< of --lr
  std::vector<std::pair<std::string, double>> ofGroups; ///< by label, where there are others
};

/// Tells a person and the log about the steps; only the leading rank does anything.
class Reporter {
public:
  Reporter(const Session &session, int64_t firstStep, int64_t steps);
  ~Reporter();
  Status open();
  /// `mode`: of Program::trainModes.
  void step(int64_t step, size_t mode, const StepResult &result, const LearningRates &rates,
            const StepPlace &place);
  /// The run does something else from here on (--heartbeat).
  void enter(RunPhase phase);
  /// What an evaluation after so many steps found.
  void evaluation(int64_t completed, const Evaluation &found);
  /// What the model answered after so many steps.
  void answers(int64_t completed, const std::vector<Answer> &said, double seconds);
  /// --early-stop ended the run.
  void tellEarlyStop(int64_t bestStep, double bestLoss);
  /// A step of which nothing was learnt, as its line in the log.
  void skip(int64_t step, const std::string &why);
  /// Training waited so long for a checkpoint before the next step.
  void waited(double seconds) { waitedSeconds += seconds; }
  /// A sample that the next step goes without, for its line in the log.
  void leaveOut(const std::string &key) { leftOut.push_back(key); }
  /// The first error of writing the log or the event file; steps are told on the terminal all the
  /// same.
  const Status &health() const { return failure; }
  /// What the steps after the first two were like.
  void summarize();
  void note(const std::string &text);

private:
  /// Of steps behind those with first-use costs.
  struct Sums {
    int64_t steps = 0;
    double seconds = 0, tokens = 0, busy = 0, flops = 0;
    void add(const StepResult &result);
    double perSecond(double sum) const { return sum / seconds; }
    double idle() const { return 1 - busy / seconds; }
  };
  struct ModeSums {
    int64_t seen = 0; ///< steps of the mode
    Sums sums;
  };

  void noteStep(int64_t step, size_t mode, const StepResult &result);
  void summarizeModes();
  std::string flopRate(const Sums &of) const;
  Status openLog();
  /// What is told of a step.
  nlohmann::ordered_json lineOf(int64_t step, size_t mode, const StepResult &result,
                                const LearningRates &rates, const StepPlace &place);
  void writeLog(const nlohmann::ordered_json &line);
  /// The line's numbers, for TensorBoard.
  void writeEvent(int64_t step, const nlohmann::ordered_json &line);
  void writeEvent(int64_t step, const std::vector<Scalar> &scalars);

  const Session &session;
  int64_t first, total, lastTold = -1;
  bool terminal;
  bool lineOpen = false;
  Clock::time_point begin = Clock::now();
  std::ofstream log;
  std::optional<EventFile> events;
  StatusFiles status;
  Status failure;
  std::vector<std::string> leftOut;
  double waitedSeconds = 0;
  PlanLog plans;
  Sums sums;
  std::vector<ModeSums> ofModes; ///< of Program::trainModes
};

/// Collects the events of all ranks; the leading one writes the file. If it cannot and nobody needs
/// it, a warning says so.
Status writeTrace(Session &session, Trace &trace, const std::string &file, bool isNeeded);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_REPORT_REPORT_H
