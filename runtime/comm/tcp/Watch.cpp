#include "runtime/comm/tcp/Watch.h"
#include <cerrno>
#include <system_error>

namespace omnibal::rt::tcp {
namespace {

constexpr int mostAtOnce = 64;

[[noreturn]] void failed(const char *what) {
  throw std::system_error(errno, std::generic_category(), what);
}

} // namespace

Watch::Watch() : epoll(epoll_create1(EPOLL_CLOEXEC)), came(mostAtOnce) {
  if (!epoll)
    failed("watching connections");
}

void Watch::set(int descriptor, int id, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = id;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_MOD, descriptor, &event) == 0)
    return;
  if (errno != ENOENT || epoll_ctl(epoll.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
    failed("watching a connection");
}

std::span<const epoll_event> Watch::wait(std::chrono::milliseconds longest) {
  const int count =
      epoll_wait(epoll.get(), came.data(), mostAtOnce, static_cast<int>(longest.count()));
  return std::span(came).first(count < 0 ? 0 : count);
}

} // namespace omnibal::rt::tcp
