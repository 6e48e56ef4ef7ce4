import type { Harness } from "../port.ts";
import { decode } from "./decode.ts";
import { encode } from "./encode.ts";
import { detect, launch, SKILLS_FOLDER } from "./launch.ts";
import { toCommand } from "./sent.ts";
import { initialState, type ScriptedState } from "./state.ts";

/** The agent without a model. A script decides on its actions. */
export const scripted: Harness<ScriptedState> = {
  id: "scripted",
  title: "Scripted",
  skillsFolder: SKILLS_FOLDER,
  detect,
  launch,
  initial: ({ idPrefix }) => initialState(idPrefix),
  decode,
  encode,
  overhear: toCommand,
  lacks: [],
};
