#include "runtime/backends/cuda/driver/Marks.h"

namespace omnibal::rt::cuda {

Mark Marks::add() {
  std::shared_ptr<Event> event;
  Status status;
  if (!spare.empty()) {
    event = std::move(spare.back());
    spare.pop_back();
  } else if (auto made = Event::create(true)) {
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

const Event *Marks::at(Mark mark) const {
  const int64_t index = mark.value - first;
  return index >= 0 && index < static_cast<int64_t>(events.size()) ? events[index].get() : nullptr;
}

Status Marks::reach(Mark mark) const {
  OMNIBAL_RETURN_IF_ERROR(health);
  const Event *event = at(mark);
  return event ? event->wait(deadline, "the end of its work")
               : Status(Code::Internal, "a mark is waited for that was forgotten");
}

Clock::time_point Marks::timeOf(Mark mark) const {
  const Event *event = at(mark);
  return event ? timeOf(*event) : anchored;
}

Clock::time_point Marks::timeOf(const Event &event) const {
  float milliseconds = 0;
  if (!anchor || !health || &event == anchor.get() ||
      cudaEventElapsedTime(&milliseconds, anchor->handle(), event.handle()) != cudaSuccess)
    milliseconds = 0;
  return anchored + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double, std::milli>(milliseconds));
}

Status Marks::restart() {
  for (auto &event : events)
    if (event && event != anchor)
      spare.push_back(std::move(event));
  first += static_cast<int64_t>(events.size());
  events.clear();
  if (anchor)
    spare.push_back(std::move(anchor));
  anchor.reset();
  Mark start = add();
  OMNIBAL_RETURN_IF_ERROR(reach(start));
  anchor = events.front();
  anchored = Clock::now();
  return Status::ok();
}

void Marks::forgetBefore(Mark mark) {
  if (!at(mark))
    return;
  anchored = timeOf(mark);
  std::shared_ptr<Event> next = events[mark.value - first];
  for (; first < mark.value; ++first) {
    if (events.front() && events.front() != anchor)
      spare.push_back(std::move(events.front()));
    events.pop_front();
  }
  if (anchor && anchor != next)
    spare.push_back(std::move(anchor));
  anchor = std::move(next);
}

} // namespace omnibal::rt::cuda
