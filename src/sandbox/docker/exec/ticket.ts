import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { EngineAddress } from "../engine.ts";
import type { ExecSpec } from "./api.ts";

/** The order to the program `exec/main.ts` to run a command in a container. It is a file, because it holds secrets. */
interface ExecTicket {
  readonly id: string;
  readonly address: EngineAddress;
  readonly spec: ExecSpec;
  /** The first line of the command's stdin. */
  readonly order?: string;
}

/** The outcome of a ticket, stored under the process group of the program that took it. */
export interface ExecReport {
  readonly ticket: string;
  /** The pid, and process group, in the container. */
  readonly pid?: number;
  /** Set where the image has no such program. */
  readonly missing?: boolean;
  readonly error?: string;
}

export async function writeTicket(folder: string, ticket: ExecTicket): Promise<string> {
  const file = join(folder, `${ticket.id}.ticket`);
  await writeFile(file, JSON.stringify(ticket), { mode: 0o600, flag: "wx" });
  return file;
}

/** Reads a ticket and removes it: it is valid once. */
export async function takeTicket(file: string): Promise<ExecTicket> {
  const text = await readFile(file, "utf8");
  await rm(file);
  return JSON.parse(text) as ExecTicket;
}

export async function writeReport(folder: string, group: number, report: ExecReport): Promise<void> {
  const file = join(folder, String(group));
  await writeFile(`${file}.new`, JSON.stringify(report), { mode: 0o600 });
  await rename(`${file}.new`, file);
}

export async function readReport(folder: string, group: number): Promise<ExecReport | undefined> {
  const text = await readFile(join(folder, String(group)), "utf8").catch(() => undefined);
  return text === undefined ? undefined : (JSON.parse(text) as ExecReport);
}
