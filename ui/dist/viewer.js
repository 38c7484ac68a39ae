"use strict";document.body.append("This build of plimsoll has no viewer yet.");
