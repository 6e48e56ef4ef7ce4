import { speakAcp } from "../acp/harness.ts";
import { childAnchor } from "../acp/messages.ts";
import type { AcpState } from "../acp/state.ts";
import type { Harness } from "../port.ts";
import { own } from "../transcript.ts";
import { grokDialect } from "./dialect.ts";
import { detect, launch, lead, lendLogin, SKILLS_FOLDER } from "./launch.ts";

/** Grok Build over ACP and its own extensions (`grok agent stdio`). */
export const grok: Harness<AcpState> = {
  id: "grok",
  title: "Grok Build",
  skillsFolder: SKILLS_FOLDER,
  choices: {
    modes: ["default", "plan"],
    models: ["grok-4.6", "grok-4.5"],
    variants: ["low", "medium", "high", "xhigh"],
  },
  credentials: [
    { env: "XAI_API_KEY" },
    { env: "GROK_API_KEY" },
    { file: ".grok/auth.json", lend: lendLogin },
  ],
  addresses: ["XAI_BASE_URL"],
  lead,
  detect,
  launch,
  ...speakAcp(grokDialect),
  parentOf: ({ transcript }, session) => own(transcript.calls, childAnchor(session))?.item,
  lacks: [],
};
