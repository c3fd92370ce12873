import "../styles/page.css";
import { render } from "preact";
import { RunList } from "../shared/run-list";
import { root, runOfAddress } from "../shared/place";
import { Contribute } from "./contribute";

const place = document.getElementById("page");
const run = runOfAddress(location.pathname, root.pathname);
if (place) {
  place.textContent = "";
  render(run ? <Contribute run={run} /> : <RunList to="" />, place);
}
