// The hooks called as each release of PyTorch calls them: through std::function, with ids of pools as std::pair.
extern "C" {
#include "../../runtime/allocator/alloc.h"
#include "fake_cuda.h"
}

#include <cstdio>
#include <functional>
#include <utility>

namespace
{

using Pool = std::pair<unsigned long long, unsigned long long>; // c10::cuda::MempoolId_t
using Stream = void *;                                          // cudaStream_t
constexpr ssize_t kBytes = ssize_t(20) << 20;
Stream const kStream = reinterpret_cast<Stream>(4);

// What Python gives is the number of an address.
template <typename F, typename G> std::function<F> hook(G *function)
{
	return reinterpret_cast<F *>(reinterpret_cast<uintptr_t>(function));
}

void refused(const char *)
{
}

struct Release {
	const char *name;
	std::function<void(Pool)> begin;
	std::function<void(Pool)> end;
	std::function<void(Pool)> release;
};

// A graph keeps what its capture allocated until it is gone.
bool keeps(const Release &r, Pool pool)
{
	r.begin(pool);
	fake_capture(kStream, 1);
	void *a = plimsoll_malloc(kBytes, 0, kStream);
	plimsoll_free(a, kBytes, 0, kStream);
	fake_capture(kStream, 0);
	r.end(pool);
	plimsoll_reset();
	void *b = plimsoll_malloc(kBytes, 0, kStream);
	bool kept = a && b && a != b && fake_used() >= 2 * static_cast<uint64_t>(kBytes);
	plimsoll_free(b, kBytes, 0, kStream);
	r.release(pool);
	plimsoll_reset();
	kept = kept && fake_used() == 0;
	std::printf("%s: %s\n", r.name, kept ? "ok" : "not kept until it is released");
	return kept;
}

} // namespace

int main()
{
	using Filter = std::function<bool(Stream)>;
	auto begin = hook<void(int, Pool, Filter)>(plimsoll_begin);
	auto end = hook<void(int, Pool)>(plimsoll_end);
	auto release = hook<void(int, Pool)>(plimsoll_release);
	auto begin21 = hook<void(int, Stream, Pool)>(plimsoll_begin_stream);
	auto end21 = hook<void(int, Stream)>(plimsoll_end_stream);
	auto begin20 = hook<void(int, unsigned long long, Pool)>(plimsoll_capture_begin);
	auto end20 = hook<void(int, unsigned long long)>(plimsoll_capture_end);
	auto gone = [&](Pool p) { release(0, p); };
	const Release releases[] = {
		{ "2.3 and later",
		  [&](Pool p) { begin(0, p, [](Stream s) { return s == kStream; }); },
		  [&](Pool p) { end(0, p); }, gone },
		{ "2.1 and 2.2", [&](Pool p) { begin21(0, kStream, p); },
		  [&](Pool) { end21(0, kStream); }, gone },
		{ "2.0", [&](Pool p) { begin20(0, 77, p); }, [&](Pool) { end20(0, 77); }, gone },
	};
	bool good = true;

	plimsoll_alloc_on_oom(refused);
	for (const Release &r : releases)
		for (Pool pool :
		     { Pool(1, 0), Pool(0, 3) }) // of the graph's own, and one that was asked for
			good = keeps(r, pool) && good;
	return !good;
}
