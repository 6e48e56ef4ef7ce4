import { readFileSync } from "node:fs";

// Shifts the clock of the process that imports it by the milliseconds that a file says, and again whenever that changes.
const file = process.env.SLUICE_TEST_CLOCK;
const RealDate = Date;
let shift = 0;
const read = () => {
  try {
    shift = Number(readFileSync(file, "utf8")) || 0;
  } catch {
    // Not shifted yet.
  }
};
if (file !== undefined) {
  read();
  setInterval(read, 250).unref();
  globalThis.Date = class Date extends RealDate {
    constructor(...args) {
      super(...(args.length === 0 ? [RealDate.now() + shift] : args));
    }
    static now() {
      return RealDate.now() + shift;
    }
  };
}
