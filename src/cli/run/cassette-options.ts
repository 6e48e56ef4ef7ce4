import { resolve } from "node:path";
import type { Command } from "commander";
import { CassetteSpec } from "../../contract/index.ts";
import { badUsage } from "../terminal/failure.ts";

export interface CassetteOptions {
  readonly record?: string;
  readonly replay?: string;
  readonly replaySpeed?: string;
}

export function addCassetteOptions(command: Command): Command {
  return command
    .option("--record <file>", "record the model's answers in this new file")
    .option("--replay <file>", "answer from such a file: no model provider is called, and no key is needed")
    .option("--replay-speed <factor>", "0 (default) answers at once, 1 as fast as it was recorded");
}

/** The cassette of a new session. A server on another machine has other files: it gets the name as it is. */
export function toCassette(
  { record, replay, replaySpeed }: CassetteOptions,
  { isHere }: { isHere: boolean },
): CassetteSpec | undefined {
  if (record !== undefined && replay !== undefined)
    throw badUsage("--record and --replay: choose one. Both at once is SLUICE_CASSETTE=auto:FILE.");
  if (replaySpeed !== undefined && replay === undefined)
    throw badUsage("--replay-speed: it needs --replay FILE.");
  const file = record ?? replay;
  if (file === undefined) return undefined;
  if (file === "") throw badUsage(`--${record === "" ? "record" : "replay"}: name a file.`);
  const speed = replaySpeed === undefined ? undefined : toSpeed(replaySpeed);
  return {
    file: isHere ? resolve(file) : file,
    mode: record === undefined ? "replay" : "record",
    ...(speed === undefined ? {} : { speed }),
  };
}

function toSpeed(text: string): number {
  const speed = CassetteSpec.shape.speed.safeParse(/^\d+(?:\.\d+)?$/.test(text) ? Number(text) : Number.NaN);
  if (speed.success && speed.data !== undefined) return speed.data;
  throw badUsage(`--replay-speed "${text}": expected a number from 0 (at once) to 1000; 1 is as recorded.`);
}

/** `SLUICE_CASSETTE`: `FILE` or `auto:FILE`, `record:FILE`, `replay:FILE`. */
export function readCassetteVariable(env: NodeJS.ProcessEnv = process.env): CassetteSpec | undefined {
  const text = env["SLUICE_CASSETTE"];
  if (text === undefined || text === "") return undefined;
  const [, mode = "auto", file = ""] = /^(?:(record|replay|auto):)?(.*)$/s.exec(text) ?? [];
  if (file !== "") return { file: resolve(file), mode: mode as CassetteSpec["mode"] };
  throw badUsage("SLUICE_CASSETTE: expected a file, as in replay:test/fix.cassette.jsonl.");
}
