// The strip below the picture: all of the recording, and which part of it the picture shows.

import { FONT_SMALL, Picture, colour } from "./dom";
import { LEFT, RIGHT } from "./chart";
import type { State } from "./state";

export class Overview {
	readonly picture: Picture;
	private columns = new Float64Array(0);

	constructor(private state: State) {
		this.picture = new Picture({ class: "overview", "aria-hidden": "true" }, (c, w, h) =>
			this.draw(c, w, h),
		);
		this.listen();
		state.on((change) => {
			if (change === "theme" || change === "view") this.picture.later();
		});
	}

	// The highest total of each column over all of the recording, as parts of the peak.
	private whole(columns: number): Float64Array {
		if (this.columns.length !== columns) {
			const { allocated, events, peak_moment } = this.state.recording;
			const peak = Math.max(1, allocated.total(peak_moment));
			this.columns = Float64Array.from({ length: columns }, (_, i) => {
				const first = Math.floor((i * events) / columns);
				const end = Math.max(first + 1, Math.floor(((i + 1) * events) / columns));
				return allocated.total(allocated.extreme(first, end, false)) / peak;
			});
		}
		return this.columns;
	}

	private draw(c: CanvasRenderingContext2D, width: number, height: number): void {
		const { recording, from, to } = this.state;
		const wide = width - LEFT - RIGHT;
		c.fillStyle = colour("--strip");
		this.whole(Math.max(1, Math.floor(wide))).forEach((part, i) =>
			c.fillRect(LEFT + i, height - part * (height - 4), 1, part * (height - 4)),
		);
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
			c.fillStyle = colour("--accent");
			c.fillRect(LEFT + recording.death_moment! * scale - 0.75, 0, 1.5, height);
		}
		c.font = FONT_SMALL;
		c.textAlign = "right";
		c.textBaseline = "middle";
		c.fillStyle = colour("--soft");
		c.fillText("all", LEFT - 8, height / 2);
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
