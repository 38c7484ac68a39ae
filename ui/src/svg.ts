// A drawing context that writes SVG: of a canvas's the calls that the picture makes.

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escape = (text: string) => text.replace(/[&<>"]/g, (c) => escapes[c]);
const n = (value: number) => String(Math.round(value * 100) / 100);

export class SvgContext {
	fillStyle = "#000";
	strokeStyle = "#000";
	lineWidth = 1;
	lineJoin = "miter";
	globalAlpha = 1;
	font = "12px sans-serif";
	textAlign = "left";
	textBaseline = "alphabetic";
	imageSmoothingEnabled = false;
	private out: string[] = [];
	private path: string[] = [];
	private dash = "";
	private clips = 0;
	private groups = [0]; // of each save: how many groups it opened
	private ruler = document.createElement("canvas").getContext("2d")!;

	// As a canvas has it, for who draws on either.
	get context(): CanvasRenderingContext2D {
		return this as unknown as CanvasRenderingContext2D;
	}

	private paint(fill: string, stroke: string): string {
		const alpha = this.globalAlpha < 1 ? ` opacity="${n(this.globalAlpha)}"` : "";
		const line = stroke === "none" ? "" : ` stroke-width="${n(this.lineWidth)}"${this.dash}`;
		return ` fill="${escape(fill)}" stroke="${escape(stroke)}"${line}${alpha}`;
	}

	save(): void {
		this.groups.push(0);
	}

	restore(): void {
		for (let k = this.groups.pop() ?? 0; k > 0; k--) this.out.push("</g>");
	}

	clip(): void {
		const id = `c${this.clips++}`;
		this.out.push(
			`<clipPath id="${id}"><path d="${this.path.join("")}"/></clipPath><g clip-path="url(#${id})">`,
		);
		this.groups[this.groups.length - 1]++;
		this.path = [];
	}

	beginPath(): void {
		this.path = [];
	}

	moveTo(x: number, y: number): void {
		this.path.push(`M${n(x)} ${n(y)}`);
	}

	lineTo(x: number, y: number): void {
		this.path.push(`L${n(x)} ${n(y)}`);
	}

	closePath(): void {
		this.path.push("Z");
	}

	rect(x: number, y: number, width: number, height: number): void {
		this.path.push(`M${n(x)} ${n(y)}h${n(width)}v${n(height)}h${n(-width)}Z`);
	}

	// Only whole circles are drawn.
	arc(x: number, y: number, r: number): void {
		this.path.push(`M${n(x - r)} ${n(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`);
	}

	fill(): void {
		this.out.push(`<path d="${this.path.join("")}"${this.paint(this.fillStyle, "none")}/>`);
	}

	stroke(): void {
		this.out.push(`<path d="${this.path.join("")}"${this.paint("none", this.strokeStyle)}/>`);
	}

	fillRect(x: number, y: number, width: number, height: number): void {
		const [left, top] = [Math.min(x, x + width), Math.min(y, y + height)];
		this.out.push(
			`<rect x="${n(left)}" y="${n(top)}" width="${n(Math.abs(width))}" height="${n(Math.abs(height))}"${this.paint(this.fillStyle, "none")}/>`,
		);
	}

	strokeRect(x: number, y: number, width: number, height: number): void {
		this.beginPath();
		this.rect(x, y, width, height);
		this.stroke();
	}

	setLineDash(list: number[]): void {
		this.dash = list.length ? ` stroke-dasharray="${list.map(n).join(" ")}"` : "";
	}

	measureText(text: string): TextMetrics {
		this.ruler.font = this.font;
		return this.ruler.measureText(text);
	}

	private write(text: string, x: number, y: number, paint: string): void {
		const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign] ?? "start";
		const line = { top: "hanging", middle: "central" }[this.textBaseline] ?? "alphabetic";
		const font = escape(this.font.replace(/"/g, "'"));
		this.out.push(
			`<text x="${n(x)}" y="${n(y)}" text-anchor="${anchor}" dominant-baseline="${line}" style="font:${font}"${paint}>${escape(text)}</text>`,
		);
	}

	fillText(text: string, x: number, y: number): void {
		this.write(text, x, y, this.paint(this.fillStyle, "none"));
	}

	strokeText(text: string, x: number, y: number): void {
		this.write(text, x, y, this.paint("none", this.strokeStyle) + ` stroke-linejoin="${this.lineJoin}"`);
	}

	text(width: number, height: number, paper: string): string {
		return (
			`<svg xmlns="http://www.w3.org/2000/svg" width="${n(width)}" height="${n(height)}" viewBox="0 0 ${n(width)} ${n(height)}">` +
			`<rect width="100%" height="100%" fill="${escape(paper)}"/>${this.out.join("\n")}</svg>\n`
		);
	}
}
