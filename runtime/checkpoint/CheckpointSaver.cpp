#include "runtime/checkpoint/CheckpointSaver.h"
#include "runtime/comm/PatientAgreement.h"

namespace omnibal::rt {

CheckpointSaver::CheckpointSaver(CheckpointWriteOptions options, Communicator &communicator,
                                 Backend &backend, ThreadPool &pool, bool staged)
    : options(std::move(options)), communicator(communicator), staging(backend, pool),
      staged(staged) {}

Result<bool> CheckpointSaver::everyoneHas(bool mine) {
  double without = !mine;
  OMNIBAL_RETURN_IF_ERROR(
      communicator.allReduce(std::span<double>(&without, 1), communicator.everyone()));
  return without == 0;
}

/// A part of the work, where this rank has one.
void CheckpointSaver::begin(Part next) {
  ++current.number;
  current.underWay = true;
  part = next;
  if (next == Part::Write      ? options.writes
      : next == Part::Describe ? options.writes && options.begins
                               : options.leads)
    work.start([this, next](const std::atomic<bool> &canceled) { return perform(next, canceled); });
}

Status CheckpointSaver::perform(Part which, const std::atomic<bool> &canceled) {
  return which == Part::Write      ? writeShard(options, state.step, written, canceled)
         : which == Part::Describe ? describeShard(options, state.step, canceled)
                                   : commitCheckpoint(options, state);
}

Status CheckpointSaver::start(RunState now, const std::vector<NamedTensor> &tensors,
                              std::vector<std::string> obsolete, int64_t best) {
  OMNIBAL_RETURN_IF_ERROR(finish());
  begun = Clock::now();
  state = std::move(now);
  options.obsolete = std::move(obsolete);
  options.best = best;
  bool copied = staged;
  written = options.writes ? tensors : std::vector<NamedTensor>();
  if (staged) {
    auto copies = staging.copy(written);
    copied = copies.isOk();
    if (!copied && copies.status().code() != Code::OutOfMemory)
      return copies.status();
    if (copied)
      written = *std::move(copies);
  }
  // Where one rank has no memory, all of them wait: it would keep them waiting anyway.
  OMNIBAL_ASSIGN_OR_RETURN(const bool beside, everyoneHas(copied));
  begin(Part::Write);
  return beside ? Status::ok() : finish();
}

Status CheckpointSaver::advance() {
  Status status = agreeOn(communicator, work);
  if (work.isUnderWay())
    return status; // a rank was lost; the thread goes on with what it uses
  if (part == Part::Write) {
    written.clear();
    staging.release();
  }
  if (status && part != Part::Commit) {
    begin(part == Part::Write && !options.layout.empty() ? Part::Describe : Part::Commit);
    return Status::ok();
  }
  ++current.number;
  current.underWay = false;
  if (status) {
    saved = state.step;
    longest = std::max(longest, std::chrono::duration<double>(Clock::now() - begun).count());
  } else if (options.leads) {
    discardCheckpoint(options, state.step);
  }
  return std::move(status).context("saving the checkpoint of step " + std::to_string(state.step));
}

Status CheckpointSaver::finish() {
  while (current.underWay)
    OMNIBAL_RETURN_IF_ERROR(advance());
  return Status::ok();
}

} // namespace omnibal::rt
