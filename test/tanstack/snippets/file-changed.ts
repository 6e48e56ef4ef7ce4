// The first snippet of seed 000, word for word.
import { stream } from "./my-run.ts";

for await (const chunk of stream) {
  if (chunk.type === "CUSTOM" && chunk.name === "file.changed") {
    const value = chunk.value;
    if (value !== null && typeof value === "object" && "diff" in value) {
      console.log(value.diff);
    }
  }
}
