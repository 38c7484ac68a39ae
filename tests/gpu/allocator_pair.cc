// What allocating and freeing costs through c10, as at::empty asks: ns a pair; allocator.py compiles and calls it.
#include <c10/core/Allocator.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

// As c10/cuda/CUDACachingAllocator.h, which needs CUDA's headers; its first base is c10::Allocator.
namespace c10::cuda::CUDACachingAllocator {
class CUDAAllocator;
extern std::atomic<CUDAAllocator *> allocator; // of the process: PyTorch's, or what is plugged in
} // namespace c10::cuda::CUDACachingAllocator

namespace {

c10::Allocator *current()
{
	return reinterpret_cast<c10::Allocator *>(c10::cuda::CUDACachingAllocator::allocator.load());
}

template <typename Work> double ns(int n, Work work)
{
	auto began = std::chrono::steady_clock::now();

	for (int i = 0; i < n; i++)
		work(i);
	return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - began).count() / n;
}

uint32_t next(uint32_t &state)
{
	return (state = state * 1664525u + 1013904223u) >> 8;
}

} // namespace

// `sizes` in turn, `rounds` times: a cycle that can be learned; the time of all but the first ten rounds.
extern "C" double pair_cycle(const size_t *sizes, int n, int rounds)
{
	c10::Allocator *a = current();

	for (int i = 0; i < 10 * n; i++)
		(void)a->allocate(sizes[i % n]);
	return ns(rounds * n, [&](int i) { (void)a->allocate(sizes[i % n]); });
}

// `live` blocks up to 16 MiB, small ones more often; each call replaces a random one.
extern "C" double pair_churn(int live, int n)
{
	c10::Allocator *a = current();
	std::vector<c10::DataPtr> held(static_cast<size_t>(live));
	uint32_t state = 1;
	auto replace = [&](int) {
		size_t at = next(state) % held.size();

		held[at].clear();
		held[at] = a->allocate(1 + next(state) % (1u << (9 + next(state) % 16)));
	};

	for (int i = 0; i < 300 * live; i++)
		replace(i);
	return ns(n, replace);
}
