//===- Gather.cpp ---------------------------------------------------------------------------===//
//
// The texts go up a tree (RankTree.h): a rank collects those of the 1, 2, 4, ... ranks behind it
// and hands all of them on, so that rank 0 hears from few.
//
//===----------------------------------------------------------------------------------------===//
#include "runtime/comm/Gather.h"
#include "runtime/comm/RankTree.h"
#include <memory>
#include <numeric>

namespace omnibal::rt {
namespace {

constexpr int64_t tag = 0;

/// The texts of neighboring ranks, one after the other.
struct Texts {
  std::vector<int64_t> lengths;
  std::string bytes;

  Communicator::Piece lengthsPiece() {
    return {lengths.data(), static_cast<int64_t>(lengths.size() * sizeof(int64_t))};
  }
  Communicator::Piece bytesPiece() { return {bytes.data(), static_cast<int64_t>(bytes.size())}; }
};

using TextsPointer = std::shared_ptr<Texts>;

Status finish(Communicator &communicator, const Result<Communicator::Handle> &handle,
              const TextsPointer &texts) {
  Status status = handle ? communicator.wait(*handle) : handle.status();
  if (!status)
    communicator.keep(texts);
  return status;
}

Status send(Communicator &communicator, int peer, const TextsPointer &texts) {
  for (Communicator::Piece piece : {texts->lengthsPiece(), texts->bytesPiece()})
    OMNIBAL_RETURN_IF_ERROR(finish(communicator, communicator.send(peer, tag, {&piece, 1}), texts));
  return Status::ok();
}

/// Appends the texts of `count` ranks.
Status receive(Communicator &communicator, int peer, int64_t count, Texts &texts) {
  auto theirs = std::make_shared<Texts>();
  theirs->lengths.resize(count);
  Communicator::Piece piece = theirs->lengthsPiece();
  OMNIBAL_RETURN_IF_ERROR(
      finish(communicator, communicator.receive(peer, tag, {&piece, 1}), theirs));
  theirs->bytes.resize(std::accumulate(theirs->lengths.begin(), theirs->lengths.end(), int64_t{0}));
  piece = theirs->bytesPiece();
  OMNIBAL_RETURN_IF_ERROR(
      finish(communicator, communicator.receive(peer, tag, {&piece, 1}), theirs));
  texts.lengths.insert(texts.lengths.end(), theirs->lengths.begin(), theirs->lengths.end());
  texts.bytes += theirs->bytes;
  return Status::ok();
}

} // namespace

Result<std::vector<std::string>> gatherTexts(Communicator &communicator, std::string mine) {
  const int rank = communicator.rank(), ranks = communicator.size();
  auto texts = std::make_shared<Texts>();
  texts->lengths.push_back(static_cast<int64_t>(mine.size()));
  texts->bytes = std::move(mine);
  for (int64_t child : treeChildren(rank, ranks))
    OMNIBAL_RETURN_IF_ERROR(
        receive(communicator, static_cast<int>(child), subtreeSize(child, ranks), *texts));
  if (rank > 0) {
    OMNIBAL_RETURN_IF_ERROR(send(communicator, static_cast<int>(treeParent(rank)), texts));
    return std::vector<std::string>();
  }
  std::vector<std::string> list;
  size_t begin = 0;
  for (int64_t length : texts->lengths) {
    list.push_back(texts->bytes.substr(begin, length));
    begin += length;
  }
  return list;
}

} // namespace omnibal::rt
