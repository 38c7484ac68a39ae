// The strip below the picture: all of the recording, and which part of it the picture shows.

import { Delay, FONT_SMALL, Picture, colour, el } from "./dom";
import { LEFT, RIGHT } from "./chart";
import type { Groups } from "./groups";
import type { State } from "./state";

export class Overview {
	readonly picture: Picture;
	private moments = new Uint32Array(0); // the highest of each column
	private image = el("canvas");
	private inked: { size: string; paper: string; groups: Groups } | null = null; // what the image shows
	private inking = new Delay(100, () => this.ink());

	constructor(private state: State) {
		this.picture = new Picture({ class: "overview", "aria-hidden": "true" }, (c, w, h) =>
			this.draw(c, w, h),
		);
		this.picture.canvas.title = "the whole recording; drag to move through it";
		this.listen();
		state.on((change) => {
			if (change === "theme" || change === "view" || change === "groups") this.picture.later();
		});
	}

	private find_moments(columns: number): void {
		if (this.moments.length === columns) return;
		const { allocated, events } = this.state.recording;
		this.moments = Uint32Array.from({ length: columns }, (_, i) => {
			const first = Math.floor((i * events) / columns);
			return allocated.extreme(
				first,
				Math.max(first + 1, Math.floor(((i + 1) * events) / columns)),
				false,
			);
		});
	}

	private get size(): string {
		const { width, height, ratio } = this.picture;
		return [width, height, ratio].join();
	}

	private get stale(): boolean {
		const { inked, size } = this;
		return (
			inked?.size !== size || inked.paper !== colour("--paper") || inked.groups !== this.state.groups
		);
	}

	// The same bands as in the picture, once there is time: each column of pixels is a walk from the one before.
	private ink(): void {
		const { groups, recording } = this.state;
		const { height, ratio } = this.picture;
		this.inked = { size: this.size, paper: colour("--paper"), groups };
		const { image, moments } = this;
		image.width = Math.max(1, moments.length);
		image.height = Math.max(1, Math.round(height * ratio));
		const c = image.getContext("2d")!;
		const scale =
			(image.height - 4 * ratio) / Math.max(1, recording.allocated.total(recording.peak_moment));
		const colours = groups.bands.map((band) => colour(band.colour));
		moments.forEach((m, i) => {
			const sums = groups.at(m);
			let bottom = image.height;
			for (let b = 0; b < sums.length; b++) {
				if (!sums[b]) continue;
				c.fillStyle = colours[b];
				c.fillRect(i, bottom - sums[b] * scale, 1, sums[b] * scale);
				bottom -= sums[b] * scale;
			}
		});
		this.picture.later();
	}

	private draw(c: CanvasRenderingContext2D, width: number, height: number): void {
		const { recording, from, to } = this.state;
		const wide = width - LEFT - RIGHT;
		this.find_moments(Math.max(1, Math.floor(wide)));
		if (this.stale) recording.when_whole(() => this.inking.start());
		if (this.inked?.size === this.size) {
			c.imageSmoothingEnabled = false;
			c.drawImage(this.image, LEFT, 0, this.moments.length, height);
		} else {
			const peak = Math.max(1, recording.allocated.total(recording.peak_moment));
			c.fillStyle = colour("--strip");
			this.moments.forEach((m, i) => {
				const high = (recording.allocated.total(m) / peak) * (height - 4);
				c.fillRect(LEFT + i, height - high, 1, high);
			});
		}
		const scale = wide / Math.max(1, recording.events);
		const left = LEFT + from * scale;
		const right = LEFT + to * scale;
		if (from > 0 || to < recording.events) {
			c.fillStyle = colour("--veil");
			c.fillRect(LEFT, 0, left - LEFT, height);
			c.fillRect(right, 0, LEFT + wide - right, height);
			c.strokeStyle = colour("--ink");
			c.lineWidth = 1;
			c.strokeRect(Math.round(left) + 0.5, 0.5, Math.max(2, Math.round(right - left)), height - 1);
		}
		if (recording.death) {
			c.fillStyle = colour("--fail");
			c.fillRect(LEFT + recording.death_moment! * scale - 0.75, 0, 1.5, height);
		}
		c.font = FONT_SMALL;
		c.textAlign = "right";
		c.textBaseline = "middle";
		c.fillStyle = colour("--soft");
		c.fillText("whole", LEFT - 8, height / 2);
	}

	// The strip below shows all of the recording; the window in it follows the pointer.
	private listen(): void {
		const canvas = this.picture.canvas;
		const centre = (event: PointerEvent) => {
			const { state } = this;
			const x = event.clientX - canvas.getBoundingClientRect().left;
			const m = ((x - LEFT) / (this.picture.width - LEFT - RIGHT)) * state.recording.events;
			const width = state.to - state.from;
			state.look(m - width / 2, m + width / 2);
		};
		canvas.addEventListener("pointerdown", (event) => {
			canvas.setPointerCapture(event.pointerId);
			centre(event);
		});
		canvas.addEventListener("pointermove", (event) => {
			if (event.buttons) centre(event);
		});
	}
}
