#include "runtime/comm/tcp/Socket.h"
#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

namespace omnibal::rt {
namespace {

using std::chrono::milliseconds;

/// The time for one attempt to connect.
constexpr milliseconds attempt{5000};
/// Names are looked up again after so long.
constexpr milliseconds lookups{1000};

/// Waits for `events`; false when the time is over.
bool ready(int descriptor, short events, Socket::Time::time_point until) {
  for (;;) {
    auto left = std::chrono::duration_cast<milliseconds>(until - Socket::Time::now()).count();
    pollfd entry{descriptor, events, 0};
    int count = poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 20)));
    if (count > 0)
      return true;
    if (count == 0 && left <= 0)
      return false;
  }
}

/// What a lookup finds.
struct Lookup {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  int error = 0; ///< of getaddrinfo
  std::vector<SocketAddress> found;
};

/// The outcome goes into `lookup`.
void look(const std::string &host, int port, int flags, Lookup &lookup) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  std::lock_guard lock(lookup.mutex);
  for (addrinfo *entry = error ? nullptr : list; entry; entry = entry->ai_next) {
    SocketAddress &address = lookup.found.emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
  }
  if (!error)
    freeaddrinfo(list);
  lookup.error = error;
  lookup.done = true;
  lookup.ended.notify_all();
}

/// A server of names that does not answer keeps the system's lookup longer than anybody here wants
/// to wait, and nothing ends it. So it runs on a thread that is left behind if need be.
Result<std::vector<SocketAddress>> resolve(const std::string &host, int port,
                                           Socket::Time::time_point until) {
  auto lookup = std::make_shared<Lookup>();
  look(host, port, AI_NUMERICHOST, *lookup);
  if (lookup->error) {
    lookup->done = false;
    try {
      std::thread([=] {
        try {
          look(host, port, 0, *lookup);
        } catch (const std::exception &) {
          std::lock_guard lock(lookup->mutex);
          lookup->error = EAI_MEMORY;
          lookup->done = true;
          lookup->ended.notify_all();
        }
      }).detach();
    } catch (const std::system_error &) { // the system refuses more threads
      look(host, port, 0, *lookup);
    }
  }
  std::unique_lock lock(lookup->mutex);
  if (!lookup->ended.wait_until(lock, until, [&] { return lookup->done; }))
    return Status(Code::DeadlineExceeded, "looking up the address \"" + host + "\" did not end");
  if (lookup->error)
    return Status(Code::Unavailable,
                  "the address \"" + host + "\" is unknown here: " + gai_strerror(lookup->error));
  return std::move(lookup->found);
}

void hurry(const Socket &socket) { // small messages go at once
  int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

SocketAddress anyAddress(int family, int port) {
  SocketAddress any;
  if (family == AF_INET6) {
    auto *address = reinterpret_cast<sockaddr_in6 *>(&any.storage);
    address->sin6_family = AF_INET6;
    address->sin6_port = htons(static_cast<uint16_t>(port));
    any.length = sizeof *address;
  } else {
    auto *address = reinterpret_cast<sockaddr_in *>(&any.storage);
    address->sin_family = AF_INET;
    address->sin_port = htons(static_cast<uint16_t>(port));
    any.length = sizeof *address;
  }
  return any;
}

int portOf(const SocketAddress &address) {
  return ntohs(address.storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6 *>(&address.storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in *>(&address.storage)->sin_port);
}

/// Waiting does not help.
bool isScarce(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}
Status noMore(const std::string &what) {
  return {Code::Unavailable, "cannot " + what + " a connection: " + std::strerror(errno) +
                                 (errno == EMFILE || errno == ENFILE ? "; raise `ulimit -n`" : "")};
}

/// One attempt; 0 or the error.
int tryToConnect(const Socket &socket, const SocketAddress &address,
                 Socket::Time::time_point until) {
  if (!::connect(socket.get(), reinterpret_cast<const sockaddr *>(&address.storage),
                 address.length))
    return 0;
  if (errno != EINPROGRESS)
    return errno;
  if (!ready(socket.get(), POLLOUT, until))
    return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) ? errno : error;
}

/// On one machine a socket that gets the port that it asks for is connected to itself, if nobody
/// listens there yet.
bool isConnectedToItself(const Socket &socket) {
  SocketAddress own;
  own.length = sizeof own.storage;
  const SocketAddress other = socket.peer();
  return !getsockname(socket.get(), reinterpret_cast<sockaddr *>(&own.storage), &own.length) &&
         own.length == other.length && !std::memcmp(&own.storage, &other.storage, own.length);
}

} // namespace

std::string SocketAddress::text() const {
  char name[NI_MAXHOST] = "?";
  getnameinfo(reinterpret_cast<const sockaddr *>(&storage), length, name, sizeof name, nullptr, 0,
              NI_NUMERICHOST);
  // An IPv4 address that came through an IPv6 socket.
  return std::strncmp(name, "::ffff:", 7) ? name : name + 7;
}

bool SocketAddress::isLoopback() const {
  std::string name = text();
  return name == "::1" || name.starts_with("127.");
}

Socket &Socket::operator=(Socket &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  return *this;
}

Socket::~Socket() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Result<Socket> Socket::listen(int port, int &chosen) {
  for (int family : {AF_INET6, AF_INET}) {
    Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket)
      continue;
    int on = 1, off = 0;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6)
      setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    SocketAddress own = anyAddress(family, port);
    if (bind(socket.get(), reinterpret_cast<sockaddr *>(&own.storage), own.length) ||
        ::listen(socket.get(), SOMAXCONN)) {
      if (errno == EADDRINUSE)
        return Status(Code::Unavailable, "port " + std::to_string(port) +
                                             " is in use on this machine; choose another "
                                             "MASTER_PORT for all ranks");
      continue;
    }
    own.length = sizeof own.storage;
    getsockname(socket.get(), reinterpret_cast<sockaddr *>(&own.storage), &own.length);
    chosen = portOf(own);
    return socket;
  }
  return Status(Code::Unavailable,
                "cannot listen on port " + std::to_string(port) + ": " + std::strerror(errno));
}

Result<Socket> Socket::connect(const std::string &host, int port, Time::time_point until) {
  std::string last; // why nobody has been reached
  std::vector<SocketAddress> addresses;
  for (Time::time_point nextLookup = Time::now();;) {
    if (Time::now() >= nextLookup) { // a machine may get its name, or another address, late
      auto found = resolve(host, port, until);
      if (found)
        addresses = *std::move(found);
      else if (last.empty() || found.status().code() != Code::DeadlineExceeded)
        last = found.status().message();
      nextLookup = Time::now() + lookups;
    }
    for (const SocketAddress &address : addresses) {
      Socket socket(
          ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket && isScarce(errno))
        return noMore("open");
      int error =
          socket ? tryToConnect(socket, address, std::min(until, Time::now() + attempt)) : errno;
      if (error == 0 && isConnectedToItself(socket))
        error = ECONNREFUSED;
      if (error == 0) {
        hurry(socket);
        return socket;
      }
      last = std::strerror(error);
    }
    if (Time::now() > until)
      return Status(Code::DeadlineExceeded, last);
    std::this_thread::sleep_for(milliseconds(50));
  }
}

Result<Socket> Socket::accept(Time::time_point until) const {
  for (;;) {
    if (!ready(descriptor, POLLIN, until))
      return Status(Code::DeadlineExceeded, "nobody came");
    Socket socket(accept4(descriptor, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      hurry(socket);
      return socket;
    }
    if (isScarce(errno))
      return noMore("accept");
  }
}

bool Socket::sendAll(const void *data, size_t bytes, Time::time_point until) const {
  auto *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t done = send(descriptor, at, bytes, MSG_NOSIGNAL);
    if (done < 0 && errno != EAGAIN && errno != EINTR)
      return false;
    if (done < 0 && !ready(descriptor, POLLOUT, until))
      return false;
    at += std::max<ssize_t>(done, 0);
    bytes -= std::max<ssize_t>(done, 0);
  }
  return true;
}

bool Socket::receiveAll(void *data, size_t bytes, Time::time_point until) const {
  auto *at = static_cast<char *>(data);
  while (bytes > 0) {
    if (!ready(descriptor, POLLIN, until))
      return false;
    ssize_t done = recv(descriptor, at, bytes, 0);
    if (done == 0 || (done < 0 && errno != EAGAIN && errno != EINTR))
      return false;
    at += std::max<ssize_t>(done, 0);
    bytes -= std::max<ssize_t>(done, 0);
  }
  return true;
}

SocketAddress Socket::peer() const {
  SocketAddress address;
  address.length = sizeof address.storage;
  getpeername(descriptor, reinterpret_cast<sockaddr *>(&address.storage), &address.length);
  return address;
}

} // namespace omnibal::rt
