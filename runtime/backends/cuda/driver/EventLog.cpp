#include "runtime/backends/cuda/driver/EventLog.h"

namespace omnibal::rt::cuda {

Event EventLog::add() {
  std::shared_ptr<DriverEvent> event;
  Status status;
  if (!spare.empty()) {
    event = std::move(spare.back());
    spare.pop_back();
  } else if (auto made = DriverEvent::create(true)) {
    event = *std::move(made);
  } else {
    status = std::move(made).status();
  }
  if (status && event)
    status = event->record(stream);
  if (!status && health)
    health = std::move(status);
  events.push_back(std::move(event));
  return {first + static_cast<int64_t>(events.size()) - 1};
}

const DriverEvent *EventLog::at(Event event) const {
  const int64_t index = event.value - first;
  return index >= 0 && index < static_cast<int64_t>(events.size()) ? events[index].get() : nullptr;
}

Status EventLog::reach(Event event) const {
  OMNIBAL_RETURN_IF_ERROR(health);
  const DriverEvent *recorded = at(event);
  return recorded ? recorded->wait(deadline, "the end of its work")
                  : Status(Code::Internal, "an event is waited for that was forgotten");
}

Clock::time_point EventLog::timeOf(Event event) const {
  const DriverEvent *recorded = at(event);
  return recorded ? timeOf(*recorded) : anchored;
}

Clock::time_point EventLog::timeOf(const DriverEvent &event) const {
  float milliseconds = 0;
  if (!anchor || !health || &event == anchor.get() ||
      cudaEventElapsedTime(&milliseconds, anchor->handle(), event.handle()) != cudaSuccess)
    milliseconds = 0;
  return anchored + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double, std::milli>(milliseconds));
}

Status EventLog::restart() {
  for (auto &event : events)
    if (event && event != anchor)
      spare.push_back(std::move(event));
  first += static_cast<int64_t>(events.size());
  events.clear();
  if (anchor)
    spare.push_back(std::move(anchor));
  anchor.reset();
  Event start = add();
  OMNIBAL_RETURN_IF_ERROR(reach(start));
  anchor = events.front();
  anchored = Clock::now();
  return Status::ok();
}

void EventLog::forgetBefore(Event event) {
  if (!at(event))
    return;
  anchored = timeOf(event);
  std::shared_ptr<DriverEvent> next = events[event.value - first];
  for (; first < event.value; ++first) {
    if (events.front() && events.front() != anchor)
      spare.push_back(std::move(events.front()));
    events.pop_front();
  }
  if (anchor && anchor != next)
    spare.push_back(std::move(anchor));
  anchor = std::move(next);
}

} // namespace omnibal::rt::cuda
