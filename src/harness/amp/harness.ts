import type { Harness } from "../port.ts";
import { decode } from "./decode.ts";
import { encode, toCommand } from "./encode.ts";
import { choices, credentials, detect, launch, SKILLS_FOLDER } from "./launch.ts";
import { type AmpState, initialState } from "./state.ts";

/** Amp by its stream-json: one process serves many turns, and its id continues a thread. */
export const amp: Harness<AmpState> = {
  id: "amp",
  title: "Amp",
  skillsFolder: SKILLS_FOLDER,
  caveat: "tested with a stub that speaks Amp's documented stream: the real agent loop runs on Amp's server",
  choices,
  credentials,
  detect,
  launch,
  initial: ({ idPrefix }) => initialState(idPrefix),
  decode,
  encode,
  overhear: toCommand,
  lacks: ["questions", "compaction", "retries"],
};
