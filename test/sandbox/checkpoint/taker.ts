import { writeSync } from "node:fs";
import { createCheckpoints } from "../../../src/sandbox/checkpoint/checkpoints.ts";
import { createFolderStorage } from "../../../src/sandbox/checkpoint/storage/folder.ts";

/** Takes checkpoints or restores the newest into a folder, on and on until it is killed; prints each when it is done. */
const [what = "", storage = "", cacheFolder = "", workspace = ""] = process.argv.slice(2);
const checkpoints = createCheckpoints({ storage: createFolderStorage(storage), cacheFolder });
writeSync(1, "ready\n");
const first = (await checkpoints.list()).at(-1);
for (let n = 0; ; n++) {
  if (what === "restore") {
    // Two trees in turns, so that there is always much to do.
    const id = n % 2 ? (first?.id ?? "latest") : "latest";
    const { info } = await checkpoints.restore(id, { roots: { workspace } });
    writeSync(1, `${info.id}\n`);
  } else {
    const { info } = await checkpoints.checkpoint({
      roots: { workspace },
      sessionId: "s",
      comment: String(n),
    });
    writeSync(1, `${info.id}\n`);
    if (what === "churn") {
      await checkpoints.remove(info.id);
      await checkpoints.gc({ graceMs: 0 });
    }
  }
}
