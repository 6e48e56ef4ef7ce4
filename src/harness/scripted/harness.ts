import type { Harness } from "../port.ts";
import { decode } from "./decode.ts";
import { encode } from "./encode.ts";
import { detect, launch, SKILLS_FOLDER } from "./launch.ts";
import { overhear } from "./overhear.ts";
import { sample } from "./sample.ts";
import { initialState, type ScriptedState } from "./state.ts";

/** The agent without a model: a script says what it does. */
export const scripted: Harness<ScriptedState> = {
  id: "scripted",
  title: "Scripted",
  skillsFolder: SKILLS_FOLDER,
  detect,
  launch,
  initial: ({ idPrefix }) => initialState(idPrefix),
  decode,
  encode,
  overhear,
  sample,
};
