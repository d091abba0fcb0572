#include "penalties.h"

namespace plimsoll {

void PenaltyWindow::Add(llama_token token) {
  if (last_tokens_ == 0)
    return;
  tokens_.push_back(token);
  counts_[token]++;
  if (last_tokens_ < 0 || tokens_.size() <= static_cast<size_t>(last_tokens_))
    return;
  auto oldest = counts_.find(tokens_.front());
  if (--oldest->second == 0)
    counts_.erase(oldest);
  tokens_.pop_front();
}

float PenalizedLogit(float logit, int32_t count, const SamplingParameters& parameters) {
  float penalized = logit <= 0 ? logit * parameters.repeat_penalty : logit / parameters.repeat_penalty;
  return penalized - static_cast<float>(count) * parameters.frequency_penalty - parameters.presence_penalty;
}

} // namespace plimsoll
