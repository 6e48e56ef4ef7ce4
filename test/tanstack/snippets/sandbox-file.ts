// The second snippet of seed 000, word for word.
import { stream } from "./my-run.ts";

for await (const chunk of stream) {
  if (chunk.type === "CUSTOM" && chunk.name === "sandbox.file") {
    const value = chunk.value;
    if (value !== null && typeof value === "object" && "type" in value && "path" in value) {
      console.log("file event", value); // { type, path, timestamp }
    }
  }
}
