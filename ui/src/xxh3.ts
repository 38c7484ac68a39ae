// XXH3 with 64 bits and no seed, of 17 bytes and more, as packed recordings are summed.  Numbers of 64 bits are two halves.

const SECRET = Uint8Array.from(
	(
		"b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c" +
		"3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364" +
		"eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
	).match(/../g)!,
	(byte) => parseInt(byte, 16),
);
const secret = new DataView(SECRET.buffer);
const MASK = (1n << 64n) - 1n;
const P32_1 = 0x9e3779b1n;
const P32_2 = 0x85ebca77n;
const P32_3 = 0xc2b2ae3dn;
const P64 = [
	0x9e3779b185ebca87n,
	0xc2b2ae3d27d4eb4fn,
	0x165667b19e3779f9n,
	0x85ebca77c2b2ae63n,
	0x27d4eb2f165667c5n,
];

function fold(a: bigint, b: bigint): bigint {
	const product = a * b;
	return (product ^ (product >> 64n)) & MASK;
}

function avalanche(sum: bigint): bigint {
	const h = sum & MASK;
	const mixed = ((h ^ (h >> 37n)) * 0x165667919e3779f9n) & MASK;
	return mixed ^ (mixed >> 32n);
}

const u64 = (view: DataView, at: number) => view.getBigUint64(at, true);

function mix16(view: DataView, at: number, key: number): bigint {
	return fold(u64(view, at) ^ u64(secret, key), u64(view, at + 8) ^ u64(secret, key + 8));
}

// The eight sums of a long input, and the stripes of 64 bytes that are added to them.
class Stripes {
	private low = new Uint32Array(8);
	private high = new Uint32Array(8);
	private key_low = new Uint32Array(25);
	private key_high = new Uint32Array(25);

	constructor() {
		[P32_3, P64[0], P64[1], P64[2], P64[3], P32_2, P64[4], P32_1].forEach((n, i) => this.set(i, n));
		for (let i = 0; i < 24; i++) {
			this.key_low[i] = secret.getUint32(8 * i, true);
			this.key_high[i] = secret.getUint32(8 * i + 4, true);
		}
	}

	private set(i: number, n: bigint): void {
		this.low[i] = Number(n & 0xffffffffn);
		this.high[i] = Number(n >> 32n);
	}

	private add(i: number, low: number, high: number): void {
		const sum = this.low[i] + low;
		this.low[i] = sum;
		this.high[i] += high + (sum > 0xffffffff ? 1 : 0);
	}

	private one(i: number, low: number, high: number, key_low: number, key_high: number): void {
		this.add(i ^ 1, low, high);
		const a = (low ^ key_low) >>> 0;
		const b = (high ^ key_high) >>> 0;
		// Of 32 times 32 bits, in halves of 16.
		const [al, ah, bl, bh] = [a & 0xffff, a >>> 16, b & 0xffff, b >>> 16];
		const middle = ah * bl + ((al * bl) >>> 16);
		const other = al * bh + (middle & 0xffff);
		this.add(i, Math.imul(a, b) >>> 0, ah * bh + Math.floor(middle / 65536) + Math.floor(other / 65536));
	}

	stripe(view: DataView, at: number, key: number): void {
		for (let i = 0; i < 8; i++)
			this.one(
				i,
				view.getUint32(at + 8 * i, true),
				view.getUint32(at + 8 * i + 4, true),
				this.key_low[key + i],
				this.key_high[key + i],
			);
	}

	last(view: DataView, at: number): void {
		for (let i = 0; i < 8; i++)
			this.one(
				i,
				view.getUint32(at + 8 * i, true),
				view.getUint32(at + 8 * i + 4, true),
				secret.getUint32(121 + 8 * i, true),
				secret.getUint32(125 + 8 * i, true),
			);
	}

	sum(i: number): bigint {
		return (BigInt(this.high[i]) << 32n) | BigInt(this.low[i]);
	}

	scramble(): void {
		for (let i = 0; i < 8; i++) {
			const n = this.sum(i);
			this.set(i, ((n ^ (n >> 47n) ^ u64(secret, 128 + 8 * i)) * P32_1) & MASK);
		}
	}
}

export function xxh3(data: Uint8Array): bigint {
	const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
	const n = data.length;
	let h = BigInt(n) * P64[0];
	if (n <= 128) {
		for (let i = Math.floor((n - 1) / 32); i >= 0; i--)
			h += mix16(view, 16 * i, 32 * i) + mix16(view, n - 16 * (i + 1), 32 * i + 16);
		return avalanche(h);
	}
	if (n <= 240) {
		for (let i = 0; i < 8; i++) h += mix16(view, 16 * i, 16 * i);
		h = avalanche(h);
		for (let i = 8; i < Math.floor(n / 16); i++) h += mix16(view, 16 * i, 16 * (i - 8) + 3);
		return avalanche(h + mix16(view, n - 16, 136 - 17));
	}
	const sums = new Stripes();
	const stripes = Math.floor((n - 1) / 64);
	const scrambled = Math.floor((n - 1) / 1024) * 16;
	for (let s = 0; s < stripes; s++) {
		sums.stripe(view, 64 * s, s % 16);
		if (s % 16 === 15 && s < scrambled) sums.scramble();
	}
	sums.last(view, n - 64);
	for (let i = 0; i < 4; i++)
		h += fold(sums.sum(2 * i) ^ u64(secret, 11 + 16 * i), sums.sum(2 * i + 1) ^ u64(secret, 19 + 16 * i));
	return avalanche(h);
}
