import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

const SHOWN = 25;

/** The functions with the most self time, for each profile in the folder. */
export async function readHotPath(folder: string): Promise<string> {
  const files = (await readdir(folder)).filter((name) => name.endsWith(".cpuprofile")).toSorted();
  const texts = files.map(async (name) => {
    const profile = JSON.parse(await readFile(join(folder, name), "utf8")) as CpuProfile;
    return `${name}\n${toLines(profile).join("\n")}`;
  });
  return (await Promise.all(texts)).join("\n\n");
}

function toLines({ nodes, samples, timeDeltas }: CpuProfile): string[] {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, toName(callFrame)]));
  const self = new Map<string, number>();
  let total = 0;
  for (const [index, sample] of samples.entries()) {
    const name = names.get(sample) ?? "?";
    const micros = timeDeltas[index] ?? 0;
    if (name === "(idle)" || name === "(program)") continue;
    self.set(name, (self.get(name) ?? 0) + micros);
    total += micros;
  }
  return [...self]
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, SHOWN)
    .map(([name, micros]) => {
      const share = ((micros / total) * 100).toFixed(1).padStart(5);
      return `${share} %  ${(micros / 1000).toFixed(0).padStart(6)} ms  ${name}`;
    });
}

function toName({ functionName, url, lineNumber }: CpuProfile["nodes"][number]["callFrame"]): string {
  if (url === "") return functionName === "" ? "(anonymous native)" : functionName;
  const file = url.split("/").slice(-2).join("/");
  return `${functionName || "(anonymous)"}  ${file}:${lineNumber + 1}`;
}
