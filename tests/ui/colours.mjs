// How far colours lie apart, for all eyes: CIEDE2000 of sRGB as people with and without the three colour
// blindnesses see it (Machado, Oliveira and Fernandes 2009, severity 1), and contrast as WCAG 2 has it.

const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);

// sRGB of 0 to 255 to linear light.
const light_of = (rgb) => rgb.map((c) => linear(c / 255));

const blindness = {
	none: [
		[1, 0, 0],
		[0, 1, 0],
		[0, 0, 1],
	],
	protanopia: [
		[0.152286, 1.052583, -0.204868],
		[0.114503, 0.786281, 0.099216],
		[-0.003882, -0.048116, 1.051998],
	],
	deuteranopia: [
		[0.367322, 0.860646, -0.227968],
		[0.280085, 0.672501, 0.047413],
		[-0.01182, 0.04294, 0.968881],
	],
	tritanopia: [
		[1.255528, -0.076749, -0.178779],
		[-0.078411, 0.930809, 0.147602],
		[0.004733, 0.691367, 0.3039],
	],
};
export const eyes = Object.keys(blindness);

export function lab(rgb, eye = "none") {
	const [r, g, b] = light_of(rgb);
	const seen = blindness[eye].map((row) => Math.min(1, Math.max(0, row[0] * r + row[1] * g + row[2] * b)));
	const xyz = [
		(0.4124564 * seen[0] + 0.3575761 * seen[1] + 0.1804375 * seen[2]) / 0.95047,
		0.2126729 * seen[0] + 0.7151522 * seen[1] + 0.072175 * seen[2],
		(0.0193339 * seen[0] + 0.119192 * seen[1] + 0.9503041 * seen[2]) / 1.08883,
	].map((t) => (t > 216 / 24389 ? Math.cbrt(t) : ((24389 / 27) * t + 16) / 116));
	return [116 * xyz[1] - 16, 500 * (xyz[0] - xyz[1]), 200 * (xyz[1] - xyz[2])];
}

const radians = (degrees) => (degrees * Math.PI) / 180;

export function delta_e(one, other) {
	const [L1, a1, b1] = one;
	const [L2, a2, b2] = other;
	const C7 = ((Math.hypot(a1, b1) + Math.hypot(a2, b2)) / 2) ** 7;
	const G = 0.5 * (1 - Math.sqrt(C7 / (C7 + 25 ** 7)));
	const [p1, p2] = [a1 * (1 + G), a2 * (1 + G)];
	const [C1, C2] = [Math.hypot(p1, b1), Math.hypot(p2, b2)];
	const hue = (b, p) => (b === 0 && p === 0 ? 0 : ((Math.atan2(b, p) * 180) / Math.PI + 360) % 360);
	const [h1, h2] = [hue(b1, p1), hue(b2, p2)];
	let dh = C1 * C2 === 0 ? 0 : h2 - h1;
	if (dh > 180) dh -= 360;
	else if (dh < -180) dh += 360;
	const dL = L2 - L1;
	const dC = C2 - C1;
	const dH = 2 * Math.sqrt(C1 * C2) * Math.sin(radians(dh / 2));
	const L = (L1 + L2) / 2;
	const C = (C1 + C2) / 2;
	let h = h1 + h2;
	if (C1 * C2 !== 0) {
		if (Math.abs(h1 - h2) <= 180) h /= 2;
		else h = (h + (h < 360 ? 360 : -360)) / 2;
	}
	const T =
		1 -
		0.17 * Math.cos(radians(h - 30)) +
		0.24 * Math.cos(radians(2 * h)) +
		0.32 * Math.cos(radians(3 * h + 6)) -
		0.2 * Math.cos(radians(4 * h - 63));
	const SL = 1 + (0.015 * (L - 50) ** 2) / Math.sqrt(20 + (L - 50) ** 2);
	const SC = 1 + 0.045 * C;
	const SH = 1 + 0.015 * C * T;
	const RC = 2 * Math.sqrt(C ** 7 / (C ** 7 + 25 ** 7));
	const RT = -Math.sin(radians(60 * Math.exp(-(((h - 275) / 25) ** 2)))) * RC;
	return Math.sqrt((dL / SL) ** 2 + (dC / SC) ** 2 + (dH / SH) ** 2 + RT * (dC / SC) * (dH / SH));
}

export function contrast(one, other) {
	const [x, y] = [one, other]
		.map(light_of)
		.map(([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b)
		.sort((a, b) => b - a);
	return (x + 0.05) / (y + 0.05);
}
