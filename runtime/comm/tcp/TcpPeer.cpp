#include "runtime/comm/tcp/TcpPeer.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>

namespace omnibal::rt::tcp {
namespace {

constexpr int64_t chunkBytes = int64_t{1} << 20;
/// The most bytes that are read or written at once; others want the lock too.
constexpr int64_t turnBytes = int64_t{1} << 20;
/// The most bytes of frames that are no chunk; a sender of more is no omnibal-run.
constexpr int64_t largestFrame = int64_t{1} << 24;

Status disagreement(const Operation &operation, const std::string &name) {
  return {Code::Internal, "this rank and rank " + std::to_string(operation.peer) + " (" + name +
                              ") disagree about the sizes of message " +
                              std::to_string(operation.tag)};
}

bool mayTryAgain() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

} // namespace

Communicator::Piece Operation::rest() const {
  int64_t skip = moved;
  for (const Communicator::Piece &piece : pieces) {
    if (skip < piece.bytes)
      return {static_cast<char *>(piece.data) + skip, piece.bytes - skip};
    skip -= piece.bytes;
  }
  return {};
}

void Peer::close() {
  cancel();
  out.clear();
  socket = Socket();
}

void Peer::queue(const FrameHeader &frame, const void *content) {
  Frame &made = out.emplace_back();
  made.bytes.assign(reinterpret_cast<const char *>(&frame), sizeof frame);
  if (content)
    made.bytes.append(static_cast<const char *>(content), frame.bytes);
}

void Peer::say(FrameKind kind, uint32_t code, const std::string &text) {
  queue({kind, code, 0, 0, static_cast<int64_t>(text.size())}, text.data());
}

void Peer::send(OperationPointer operation) {
  auto waiting = asked.find(operation->tag);
  if (waiting == asked.end()) {
    sends[operation->tag].push_back(std::move(operation));
    return;
  }
  Waiting ready = std::move(waiting->second.front());
  waiting->second.pop_front();
  if (waiting->second.empty())
    asked.erase(waiting);
  start(operation, ready);
}

void Peer::receive(OperationPointer operation) {
  operation->id = nextId++;
  std::vector<int64_t> sizes;
  for (const Communicator::Piece &piece : operation->pieces)
    sizes.push_back(piece.bytes);
  queue({FrameKind::Ready, 0, operation->tag, operation->id,
         static_cast<int64_t>(sizes.size() * sizeof(int64_t))},
        sizes.data());
  receives[operation->id] = std::move(operation);
}

/// The receiver waits: the bytes may go.
void Peer::start(const OperationPointer &operation, const Waiting &ready) {
  bool same = ready.sizes.size() == operation->pieces.size();
  for (size_t i = 0; same && i < ready.sizes.size(); ++i)
    same = ready.sizes[i] == operation->pieces[i].bytes;
  operation->id = ready.id;
  if (same) {
    sending.push_back(operation);
    return;
  }
  queue({FrameKind::Mismatch, 0, operation->tag, ready.id, 0}, nullptr);
  operation->failure = disagreement(*operation, name);
  operation->done = true;
}

void Peer::cancel() {
  if (!out.empty() && out.front().chunk) {
    Frame &frame = out.front();
    while (frame.left > 0) {
      Communicator::Piece rest = frame.chunk->rest();
      int64_t bytes = std::min(rest.bytes, frame.left);
      frame.bytes.append(static_cast<const char *>(rest.data), bytes);
      frame.chunk->moved += bytes;
      frame.left -= bytes;
    }
    frame.chunk = nullptr;
  }
  sends.clear();
  asked.clear();
  sending.clear();
  receives.clear();
}

void Peer::queueChunk() {
  const OperationPointer &operation = sending.front();
  int64_t bytes = std::min(chunkBytes, operation->total - operation->moved);
  queue({FrameKind::Chunk, 0, operation->tag, operation->id, bytes}, nullptr);
  // The bytes follow from the sender's memory.
  out.back().chunk = operation;
  out.back().left = bytes;
}

int64_t Peer::writeSome(News &news) {
  Frame &frame = out.front();
  bool fromFrame = frame.written < frame.bytes.size();
  const void *data = frame.bytes.data() + frame.written;
  int64_t bytes = static_cast<int64_t>(frame.bytes.size() - frame.written);
  if (!fromFrame && frame.left > 0) {
    Communicator::Piece rest = frame.chunk->rest();
    data = rest.data;
    bytes = std::min(rest.bytes, frame.left);
  }
  if (bytes == 0)
    return 0;
  int more = fromFrame && frame.left > 0 ? MSG_MORE : 0;
  ssize_t done = ::send(socket.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT | more);
  if (done < 0)
    return mayTryAgain() ? 0 : -1;
  if (fromFrame) {
    frame.written += done;
  } else {
    frame.left -= done;
    frame.chunk->moved += done;
    news.moved |= done > 0;
  }
  return done;
}

bool Peer::write(News &news) {
  for (int64_t turn = 0; turn < turnBytes;) {
    if (out.empty() && !sending.empty())
      queueChunk();
    if (out.empty())
      return true;
    int64_t done = writeSome(news);
    if (done < 0)
      return false;
    Frame &frame = out.front();
    if (frame.written < frame.bytes.size() || frame.left > 0) {
      if (done == 0)
        return true;
      turn += done;
      continue;
    }
    turn += done;
    if (OperationPointer operation = frame.chunk;
        operation && operation->moved == operation->total) {
      operation->done = news.finished = true;
      sending.pop_front();
    }
    out.pop_front();
  }
  return true;
}

bool Peer::takeReady() {
  Waiting ready{header.id, {}};
  if (body.size() % sizeof(int64_t))
    return false;
  ready.sizes.resize(body.size() / sizeof(int64_t));
  if (!body.empty())
    std::memcpy(ready.sizes.data(), body.data(), body.size());
  auto waiting = sends.find(header.tag);
  if (waiting == sends.end()) {
    asked[header.tag].push_back(std::move(ready));
    return true;
  }
  OperationPointer operation = std::move(waiting->second.front());
  waiting->second.pop_front();
  if (waiting->second.empty())
    sends.erase(waiting);
  start(operation, ready);
  return true;
}

/// A frame is complete.
bool Peer::take(News &news) {
  auto receive = receives.find(header.id);
  switch (header.kind) {
  case FrameKind::Ready:
    news.finished = true; // a disagreement ends its send
    return takeReady();
  case FrameKind::Chunk:
    if (receive != receives.end() && receive->second->moved == receive->second->total) {
      receive->second->done = news.finished = true;
      receives.erase(receive);
    }
    return true;
  case FrameKind::Mismatch:
    if (receive != receives.end()) {
      receive->second->failure = disagreement(*receive->second, name);
      receive->second->done = news.finished = true;
      receives.erase(receive);
    }
    return true;
  case FrameKind::Abort:
    news.aborted = true;
    news.reason = {header.code == 0 || header.code > uint32_t(Code::Internal) ? Code::Unavailable
                                                                              : Code(header.code),
                   std::string(body.begin(), body.end())};
    return true;
  case FrameKind::Activity:
    activity.assign(body.begin(), body.end());
    progress = std::max(progress, Socket::Time::now() - std::chrono::milliseconds(header.code));
    ++timesTold;
    news.told = true;
    return true;
  case FrameKind::Question:
    news.asked = true;
    return true;
  case FrameKind::Bye:
    ended = news.finished = true;
    return true;
  }
  return false;
}

/// Part of a header or of what follows it.
bool Peer::readSome(News &news, int64_t &bytes) {
  void *to = reinterpret_cast<char *>(&header) + headerRead;
  bytes = static_cast<int64_t>(sizeof header) - headerRead;
  Operation *operation = nullptr;
  char unwanted[65536];
  if (bytes == 0 && header.kind == FrameKind::Chunk) {
    bytes = header.bytes - bodyRead;
    if (auto found = receives.find(header.id); found != receives.end()) {
      operation = found->second.get();
      Communicator::Piece rest = operation->rest();
      if (rest.bytes == 0)
        return false; // more than the message holds
      to = rest.data;
      bytes = std::min(bytes, rest.bytes);
    } else { // of a message that was given up
      to = unwanted;
      bytes = std::min<int64_t>(bytes, sizeof unwanted);
    }
  } else if (bytes == 0) {
    to = body.data() + bodyRead;
    bytes = header.bytes - bodyRead;
  }
  ssize_t done = recv(socket.get(), to, bytes, MSG_DONTWAIT);
  bytes = 0;
  if (done == 0)
    return false;
  if (done < 0)
    return mayTryAgain();
  bytes = done;
  if (headerRead < static_cast<int64_t>(sizeof header)) {
    headerRead += done;
    if (headerRead < static_cast<int64_t>(sizeof header))
      return true;
    bool isChunk = header.kind == FrameKind::Chunk;
    if (header.kind > FrameKind::Bye || header.bytes < 0 ||
        header.bytes > (isChunk ? chunkBytes : largestFrame))
      return false;
    bodyRead = 0;
    body.resize(isChunk ? 0 : header.bytes);
  } else {
    bodyRead += done;
    if (operation)
      operation->moved += done;
    news.moved |= operation != nullptr;
  }
  if (bodyRead < header.bytes)
    return true;
  headerRead = 0;
  return take(news);
}

bool Peer::read(News &news) {
  for (int64_t turn = 0; turn < turnBytes;) {
    int64_t bytes = 0;
    if (!readSome(news, bytes))
      return false;
    if (bytes == 0)
      return true;
    turn += bytes;
  }
  return true;
}

} // namespace omnibal::rt::tcp
