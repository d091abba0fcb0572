#include "record.h"

#include "errors.h"
#include "layout.h"
#include "sampling-parameters.h"

#include <string>

namespace plimsoll {
namespace {

namespace header = layout::BATCH_HEADER;

[[noreturn]] void Fail(const std::string& what) {
  throw AddonError("invalid_record", "the batch record " + what);
}

// A record is at most an eighth of a ring, so no count can be near this; sums of counts cannot overflow below it.
constexpr int32_t kCountMax = 1 << 26;

int32_t Count(const int32_t* record, int32_t index) {
  int32_t count = record[index];
  if (count < 0 || count > kCountMax)
    Fail("has an impossible count in header word " + std::to_string(index));
  return count;
}

void ReadStarts(const int32_t* words, int64_t length, int32_t count, RecordView& view) {
  int64_t at = 0;
  for (int32_t index = 0; index < count; index++) {
    if (length - at < layout::START_WORDS)
      Fail("ends inside a start");
    const int32_t* start = words + at;
    StartView found{start[layout::START::sequence],      start[layout::START::request],
                    start + layout::START_WORDS,         start[layout::START::historyCount],
                    start[layout::START::sampledBefore], nullptr};
    at += layout::START_WORDS;
    if (found.history_count < 0 || found.history_count > length - at)
      Fail("ends inside a start's history");
    if (found.sampled_before < 0)
      Fail("has a negative number of tokens sampled before");
    at += found.history_count;
    found.block = words + at;
    int32_t block_words = SamplingBlockWords(found.block, length - at);
    if (block_words < 0)
      Fail("has a malformed sampling block");
    at += block_words;
    view.starts.push_back(found);
  }
  if (at != length)
    Fail("has starts that do not fill their words");
}

} // namespace

void ReadRecord(const int32_t* record, int64_t available, RecordView& view) {
  if (available < layout::BATCH_HEADER_WORDS)
    Fail("is shorter than its header");
  view.starts.clear();
  view.op_count = Count(record, header::opCount);
  view.segment_count = Count(record, header::segmentCount);
  view.token_count = Count(record, header::tokenCount);
  view.threads = Count(record, header::threads);
  const int32_t start_words = Count(record, header::startWords);
  int64_t at = layout::BATCH_HEADER_WORDS;
  const int64_t ops = at;
  at += static_cast<int64_t>(view.op_count) * layout::OP_WORDS;
  const int64_t starts = at;
  at += start_words;
  const int64_t segments = at;
  at += static_cast<int64_t>(view.segment_count) * layout::SEGMENT_WORDS;
  const int64_t tokens = at;
  at += view.token_count;
  at += static_cast<int64_t>(Count(record, header::noticeCount)) * layout::NOTICE_WORDS;
  const int64_t total = Count(record, header::totalWords);
  // A ring aligns its records to two words, so one may follow that belongs to no part.
  if (total != at && total != at + 1)
    Fail("is " + std::to_string(total) + " words long, its parts are " + std::to_string(at));
  if (total > available)
    Fail("reaches beyond the words it lies in");
  view.ops = record + ops;
  view.segments = record + segments;
  view.tokens = record + tokens;
  ReadStarts(record + starts, start_words, Count(record, header::startCount), view);
}

} // namespace plimsoll
