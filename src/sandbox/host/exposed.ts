import { SluiceError } from "../../contract/index.ts";
import { homeFolder } from "../homeFolder.ts";
import { isInside } from "./mapping.ts";

/** Refuses a folder of the host that would show a sandbox the user's home, the server's own data, or the whole disk. */
export function refuseExposed(needs: readonly string[], hide: readonly string[]): void {
  const home = homeFolder();
  const kept = [...(home === "/" ? [] : [home]), ...hide];
  const exposed = needs.find((need) => need === "/" || kept.some((path) => isInside(path, need)));
  if (exposed === undefined) return;
  const detail = `The program cannot be started in a sandbox: it would need all of ${exposed}, and with it a home or sluice's own data. Install it in a folder of its own.`;
  throw new SluiceError("permission_denied", detail, { path: exposed });
}
