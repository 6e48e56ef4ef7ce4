import { setImmediate as turn } from "node:timers/promises";

const SLICE_MS = 5;

/** Lets others run now and then: looking at files is done in one go for speed, but not for long. */
export class Slice {
  #begun = performance.now();
  /** The time that was really spent. */
  #spent = 0;

  get isOver(): boolean {
    return performance.now() - this.#begun > SLICE_MS;
  }

  get spentMs(): number {
    return this.#spent + performance.now() - this.#begun;
  }

  async pause(): Promise<void> {
    this.#spent += performance.now() - this.#begun;
    await turn();
    this.#begun = performance.now();
  }
}
